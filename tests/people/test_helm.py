"""The chart, as Helm renders it and Kubernetes' own description of its interface judges it."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from perago_worker.config.load import load
from tests.docs.documents import ROOT, blocks, project, text
from tests.support.servers.sharing import demand
from tests.support.servers.tools import HELM, KUBECONFORM, SCHEMAS

CHART = "adapters/deploy/helm/perago"
IMAGE = {"image": {"repository": "registry.example/perago"}}
#: What a team sets: a project, the servers' addresses, and where the secrets are.
OURS: dict[str, Any] = {
    "image": {"repository": "registry.example/perago", "tag": "sha256:" + "0" * 64},
    "imagePullSecrets": [{"name": "pull"}],
    "replicas": 3,
    "environment": {"PERAGO_WORKER__CAPACITY": 8, "PERAGO_WORKER__NUDGE": False},
    "secret": {"values": {"PERAGO_STORE__ACCESS_KEY": "AKIA", "PERAGO_STORE__SECRET_KEY": "s3cret"}},
    "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
    "livenessProbe": {"exec": {"command": ["perago", "status"]}, "periodSeconds": 300},
    "networkPolicy": {
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"protocol": "TCP", "port": 8000}]}]
    },
    "podAnnotations": {"example.com/owner": "data"},
    "nodeSelector": {"kubernetes.io/arch": "amd64"},
    "tolerations": [{"key": "batch", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
}
(VALUES,) = blocks("specs/guide/howto/schedule.md", "yaml")
SCHEDULED: dict[str, Any] = yaml.safe_load(VALUES)
pytestmark = pytest.mark.servers


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    demand(HELM)
    return subprocess.run(  # noqa: S603  pinned
        [str(HELM.path), *words], cwd=ROOT, check=False, capture_output=True, text=True, timeout=120
    )


def rendered(folder: Path, values: dict[str, Any]) -> str:
    (folder / "values.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    ran = helm("template", "workers", CHART, "--values", str(folder / "values.yaml"))
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def judged(manifests: str) -> subprocess.CompletedProcess[str]:
    """Have kubeconform look at every field of every manifest, without a network."""
    demand(KUBECONFORM)
    demand(SCHEMAS)
    where = f"{SCHEMAS.folder}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"
    return subprocess.run(  # noqa: S603  pinned
        [str(KUBECONFORM.path), "-strict", "-summary", "-schema-location", where, "-"],
        input=manifests,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def documents(manifests: str) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all(manifests) if each}


@pytest.mark.parametrize(
    ("values", "resources"),
    [
        (IMAGE, 4),
        (OURS, 4),
        ({**IMAGE, "secret": {"existing": "theirs"}}, 3),
        ({**IMAGE, "networkPolicy": {"enabled": False}}, 3),
        ({**OURS, **SCHEDULED}, 5),
    ],
    ids=["defaults", "everything set", "a secret that exists", "no network policy", "scheduled as the guide says"],
)
def test_what_the_chart_renders_is_what_kubernetes_takes(
    values: dict[str, Any], resources: int, tmp_path: Path
) -> None:
    found = judged(rendered(tmp_path, values))
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{resources} resources found" in found.stdout
    assert f"Valid: {resources}, Invalid: 0, Errors: 0, Skipped: 0" in found.stdout


@pytest.mark.parametrize(("right", "wrong"), [("replicas: 2", "replica: 2"), ("port: 443", "port: true")])
def test_a_field_that_is_misspelt_or_of_another_type_is_found(right: str, wrong: str, tmp_path: Path) -> None:
    """Else the test above would show nothing: the server drops what it does not know."""
    manifests = rendered(tmp_path, IMAGE)
    assert manifests.count(right) == 1
    found = judged(manifests.replace(right, wrong))
    assert found.returncode == 1
    assert "Invalid: 1" in found.stdout


def test_the_chart_is_linted_and_says_the_version_of_the_package() -> None:
    ran = helm("lint", "--strict", CHART, "--set", "image.repository=registry.example/perago")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert yaml.safe_load(text(f"{CHART}/Chart.yaml"))["appVersion"] == project()["version"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("image.repository=", "image/repository"),
        ("replica=3", "replica"),
        ("terminationGracePeriodSeconds=30", "terminationGracePeriodSeconds"),
        ("schedules.orders.cron=@daily x", "schedules/orders"),
        ("secret.existing=theirs,secret.values.KEY=value", "expected one of them; found both"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_name(setting: str, says: str) -> None:
    ran = helm("template", "workers", CHART, "--set", "image.repository=registry.example/perago", "--set", setting)
    assert ran.returncode == 1
    assert says in ran.stderr.replace(".", "/") or says in ran.stderr, ran.stderr


def test_nobody_is_root_nothing_of_the_image_is_written_and_nobody_connects_to_a_worker(tmp_path: Path) -> None:
    found = documents(rendered(tmp_path, IMAGE))
    pod = found["Deployment"]["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    user = [line.split()[1] for line in text("adapters/deploy/Containerfile").splitlines() if line.startswith("USER ")]
    assert (pod["securityContext"]["runAsNonRoot"], str(pod["securityContext"]["runAsUser"])) == (True, user[-1])
    assert worker["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert worker["resources"]["limits"]["memory"]
    assert worker["startupProbe"]["exec"]["command"] == ["perago", "doctor"]
    policy = found["NetworkPolicy"]["spec"]
    assert (policy["policyTypes"], policy["ingress"]) == (["Ingress", "Egress"], [])
    assert (
        policy["podSelector"]["matchLabels"].items()
        <= found["Deployment"]["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_project_and_the_settings_are_what_a_worker_reads_and_secrets_are_in_the_secret_only(
    tmp_path: Path,
) -> None:
    """The guide's production configuration goes in and comes out; every variable is a setting that exists."""
    (configuration,) = [block for block in blocks("specs/guide/howto/cluster.md", "toml") if "lakefs" in block]
    manifests = rendered(tmp_path, {**OURS, "project": {"perago.toml": configuration, "hello.py": "# 'tasks' {{ }}\n"}})
    found = documents(manifests)
    files = found["ConfigMap"]["data"]
    assert (tomllib.loads(files["perago.toml"]), files["hello.py"]) == (
        tomllib.loads(configuration),
        "# 'tasks' {{ }}\n",
    )
    (worker,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    secret = found["Secret"]["stringData"]
    environment = {each["name"]: each["value"] for each in worker["env"]} | secret
    (tmp_path / "perago.toml").write_text(files["perago.toml"], encoding="utf-8")
    settings = load(tmp_path, {}, environment)
    assert (settings.store.kind, settings.store.access_key, settings.worker.capacity) == ("lakefs", "AKIA", 8)
    assert settings.worker.nudge is False
    assert str(settings.worker.root) == "/scratch/work"
    assert manifests.count("s3cret") == 1
    assert worker["envFrom"] == [{"secretRef": {"name": found["Secret"]["metadata"]["name"]}}]
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] > settings.worker.drain_limit


def test_a_schedule_runs_what_it_says_as_its_workers_do_and_never_beside_itself(tmp_path: Path) -> None:
    found = documents(rendered(tmp_path, {**OURS, **SCHEDULED}))
    job = found["CronJob"]["spec"]
    assert (job["schedule"], job["concurrencyPolicy"]) == ("15 2 * * *", "Forbid")
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    beside = found["Deployment"]["spec"]["template"]["spec"]
    assert pod["containers"][0]["args"] == ["run", "orders", "--on", "conductor"]
    ours = {"args", "startupProbe", "livenessProbe"}
    (mine,), (theirs,) = pod["containers"], beside["containers"]
    assert {key: mine[key] for key in mine if key not in ours} == {
        key: theirs[key] for key in theirs if key not in ours
    }
    assert (pod["securityContext"], pod["volumes"]) == (beside["securityContext"], beside["volumes"])


def test_a_changed_project_makes_new_workers(tmp_path: Path) -> None:
    def annotations(configuration: str) -> dict[str, str]:
        values = {**IMAGE, "project": {"perago.toml": configuration}}
        found: dict[str, str] = documents(rendered(tmp_path, values))["Deployment"]["spec"]["template"]["metadata"][
            "annotations"
        ]
        return found

    assert annotations("tasks = []") == annotations("tasks = []") != annotations('tasks = ["hello"]')
