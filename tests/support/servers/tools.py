"""Programs that tests judge files with, which are no servers: Helm, kubeconform, and the schemas of Kubernetes for it.

Built and kept as the servers are, from modules checked against the sums below. Kubernetes itself is only downloaded:
its module holds the description of its interface, of which the schemas are made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.servers.cache import Part, Report
from tests.support.servers.commands import run
from tests.support.servers.obtaining import build, demand
from tests.support.servers.toolchain import go

HELM = Part("helm", "3.22.0", "helm")
HELM_MODULE = f"helm.sh/helm/v3@v{HELM.version}"
HELM_SUM = "h1:n1if5iQgHYsujPAcO5oonH/KiSNUmqmUF0iGVjSF3AU="
KUBECONFORM = Part("kubeconform", "0.8.0", "kubeconform")
KUBECONFORM_MODULE = f"github.com/yannh/kubeconform@v{KUBECONFORM.version}"
KUBECONFORM_SUM = "h1:loDYd3a3spjIFrauqW67CDKF55Oo9R6uvC8AvpVd4ug="
#: One file for each kind below.
SCHEMAS = Part("kubernetes-schemas", "1.35.0", "deployment-apps-v1.json")
KUBERNETES_MODULE = f"k8s.io/kubernetes@v{SCHEMAS.version}"
KUBERNETES_SUM = "h1:PUOojD8c8E3csMP5NX+nLLne6SGqZjrYCscptyBfWMY="

#: The kinds that are judged, as kubeconform names their files.
KINDS: Mapping[str, str] = {
    "deployment-apps-v1": "io.k8s.api.apps.v1.Deployment",
    "configmap-v1": "io.k8s.api.core.v1.ConfigMap",
    "secret-v1": "io.k8s.api.core.v1.Secret",
    "networkpolicy-networking-v1": "io.k8s.api.networking.v1.NetworkPolicy",
    "cronjob-batch-v1": "io.k8s.api.batch.v1.CronJob",
}
#: Two definitions say less than the server takes: a port may be a number, and so may an amount.
LOOSER: Mapping[str, Any] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": ["string", "integer"]},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": ["string", "number"]},
}


def obtain_helm(report: Report) -> Path:
    program = f"{HELM_MODULE.partition('@')[0]}/cmd/helm"
    return HELM.place(lambda folder: build(folder / HELM.file, HELM_MODULE, HELM_SUM, program, report), report)


def obtain_kubeconform(report: Report) -> Path:
    program = f"{KUBECONFORM_MODULE.partition('@')[0]}/cmd/kubeconform"
    return KUBECONFORM.place(
        lambda folder: build(folder / KUBECONFORM.file, KUBECONFORM_MODULE, KUBECONFORM_SUM, program, report), report
    )


def obtain_schemas(report: Report) -> Path:
    return SCHEMAS.place(lambda folder: _write_schemas(folder, report), report)


def _write_schemas(folder: Path, report: Report) -> None:
    asked = [go(report), "mod", "download", "-json", KUBERNETES_MODULE]
    found = json.loads(run("downloading Kubernetes", asked, folder.parent, report, {"GOTOOLCHAIN": "local"}))
    demand("the module's sum", found["Sum"], KUBERNETES_SUM)
    described = json.loads((Path(found["Dir"]) / "api" / "openapi-spec" / "swagger.json").read_text("utf-8"))
    definitions = {name: LOOSER.get(name, strict(each)) for name, each in described["definitions"].items()}
    for file, name in KINDS.items():
        schema = {"$ref": f"#/definitions/{name}", "definitions": definitions}
        (folder / f"{file}.json").write_text(json.dumps(schema), "utf-8")


def strict(definition: dict[str, Any]) -> dict[str, Any]:
    """Let a definition refuse a field it does not know: the server drops it without a word."""
    return {**definition, "additionalProperties": False} if "properties" in definition else definition


TOOLS: Mapping[str, Callable[[Report], Path]] = {
    "helm": obtain_helm,
    "kubeconform": obtain_kubeconform,
    "schemas": obtain_schemas,
}
