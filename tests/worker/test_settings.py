"""Configuration: one object, one order of precedence, errors that say what to change, secrets nobody can read."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from pydantic import SecretStr

from perago_worker.cli.project import find_project
from perago_worker.config.load import FAMILIAR, SettingsError, load
from perago_worker.config.settings import Settings
from perago_worker.stack import open_stack

SECRET = "not-for-your-eyes"  # noqa: S105  the test looks for it


def project(folder: Path, toml: str = "", dotenv: str = "") -> Path:
    (folder / "perago.toml").write_text(toml, encoding="utf-8")
    (folder / ".env").write_text(dotenv, encoding="utf-8")
    return folder


def test_command_line_over_environment_over_dotenv_over_file(tmp_path: Path) -> None:
    given = project(tmp_path, "[fence]\npolicy = 'auto'", "PERAGO_FENCE__POLICY=enable")
    variables = {"PERAGO_FENCE__POLICY": "disable"}
    assert load(given, {"fence": {"policy": "soft"}}, variables).fence.policy == "soft"
    assert load(given, {}, variables).fence.policy == "disable"
    assert load(given, {}, {}).fence.policy == "enable"
    (given / ".env").unlink()
    assert load(given, {}, {}).fence.policy == "auto"


def test_without_any_file_the_embedded_stack_is_the_default(tmp_path: Path) -> None:
    settings = load(tmp_path, {}, {})
    kinds = (settings.store.kind, settings.orchestrator.kind, settings.coordination.kind, settings.fence.policy)
    assert kinds == ("local", "local", "local", "auto")


@pytest.mark.parametrize("name", FAMILIAR)
def test_names_users_already_have_are_honoured_below_our_own(tmp_path: Path, name: str) -> None:
    section, key = FAMILIAR[name]

    def value(dotenv: str, variables: dict[str, str]) -> str:
        found: object = getattr(getattr(load(project(tmp_path, "", dotenv), {}, variables), section), key)
        if isinstance(found, SecretStr):
            return found.get_secret_value()
        return Path(str(found)).name.strip("(),'")

    ours = f"PERAGO_{section}__{key}".upper()
    assert value("", {name: "theirs"}) == "theirs"
    assert value(f"{name}=theirs", {}) == "theirs"
    assert value("", {name: "theirs", ours: "ours"}) == "ours"
    assert value(f"{ours}=ours", {name: "theirs"}) == "theirs"


def test_paths_are_relative_to_the_file_and_the_file_is_found_from_below(tmp_path: Path) -> None:
    project(tmp_path, "[store]\npath = 'data'")
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert find_project(below) == tmp_path.resolve()
    assert load(find_project(below), {}, {}).store.path == tmp_path.resolve() / "data"


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("fense = 1", "fense: there is no such setting; known here: tasks, store"),
        ("[fence]\npolice = 'auto'", "fence.police: there is no such setting; known here: policy, on_indeterminate"),
        ("[fence]\npolicy = 'atuo'", "fence.policy: Input should be 'auto', 'enable', 'disable' or 'soft'"),
        ("[budget]\ntakeover_wait = 1", "takeover_wait 1 s is shorter than publish_timeout plus margin"),
        ("[worker]\ncapacity = 0", "worker.capacity: Input should be greater than or equal to 1"),
        ("[pipelines.p]\nrepository = 'lake'\nsteps = []", "pipelines.p.steps"),
        ("[fence", "perago.toml is not valid TOML"),
    ],
)
def test_a_mistake_is_named_with_what_to_change(tmp_path: Path, toml: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(project(tmp_path, toml), {}, {})
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_file_that_is_not_text_is_an_error_not_a_crash(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"perago\.toml cannot be read"):
        load(tmp_path, {}, {})


def test_lists_are_words_with_commas_in_a_variable(tmp_path: Path) -> None:
    assert load(tmp_path, {}, {"PERAGO_TASKS": "one, two"}).tasks == ("one", "two")


def test_a_section_or_a_table_is_json_in_a_variable_and_a_single_key_is_set_over_it(tmp_path: Path) -> None:
    variables = {
        "PERAGO_FENCE__POLICY": "soft",
        "PERAGO_FENCE": '{"policy": "enable", "on_indeterminate": "fallback"}',
        "PERAGO_SPARK__CONF": '{"spark.ui.enabled": false}',
        "PERAGO_FAILPOINT": "of the worker, and no setting",
    }
    settings = load(tmp_path, {}, variables)
    assert (settings.fence.policy, settings.fence.on_indeterminate) == ("soft", "fallback")
    assert settings.spark.conf == {"spark.ui.enabled": "false"}
    with pytest.raises(SettingsError, match="PERAGO_FENCE must hold a JSON object"):
        load(tmp_path, {}, {"PERAGO_FENCE": "soft"})


def test_secrets_are_never_printed_logged_or_part_of_an_error(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    variables = {
        "CONDUCTOR_AUTH_SECRET": SECRET,
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET,
        "PERAGO_COORDINATION__PASSWORD": SECRET,
    }
    settings = load(tmp_path, {}, variables)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("perago").warning("settings: %s %r", settings, settings)
    printed = (
        caplog.text,
        str(settings),
        repr(settings),
        settings.model_dump_json(),
        json.dumps(settings.model_dump(mode="json")),
    )
    assert all(SECRET not in text for text in printed)
    assert settings.store.secret_key.get_secret_value() == SECRET
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, {}, {**variables, "PERAGO_ORCHESTRATOR__SECRETS": SECRET})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("section", ["store", "orchestrator"])
@pytest.mark.parametrize("url", [f"https://me:{SECRET}@host/api", f"me:{SECRET}@host", f"https://me:a/{SECRET}@host"])
def test_an_address_with_a_password_in_it_is_refused_without_telling_it(tmp_path: Path, section: str, url: str) -> None:
    """Addresses are logged, and are part of reasons; secrets have settings of their own."""
    with pytest.raises(SettingsError, match=rf"{section}\.url: expected an address") as caught:
        load(tmp_path, {section: {"url": url}}, {})
    assert SECRET not in str(caught.value)


def test_etcd_needs_nothing_but_its_address(tmp_path: Path) -> None:
    """Counterexample, seen: without a prefix every command ended in a traceback, and no page named the setting."""
    settings = load(project(tmp_path, '[coordination]\nkind = "etcd"\nendpoints = ["http://127.0.0.1:1"]\n'), {}, {})
    assert settings.coordination.prefix == "perago/"
    assert open_stack(settings).coordination is not None


def test_settings_cannot_change_once_they_are_read(tmp_path: Path) -> None:
    settings: Settings = load(tmp_path, {}, {})
    with pytest.raises(ValueError, match="frozen"):
        settings.fence.policy = "soft"


# ---- ``[spark]``: what Spark's users write, in the way they write it, and secrets that stay secret.


CONFIGURATION = """
[spark]
master = "spark://here:7077"
keep = 2

[spark.conf]
spark.driver.memory = "1g"
spark.ui.enabled = false
spark.sql.shuffle.partitions = 8
"spark.sql.ansi.enabled" = true
"""


def test_spark_s_own_names_are_written_as_everywhere(tmp_path: Path) -> None:
    (tmp_path / "perago.toml").write_text(CONFIGURATION, encoding="utf-8")
    found = load(tmp_path, {}, {}).spark
    assert (found.master, found.keep) == ("spark://here:7077", 2)
    assert found.conf == {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.ansi.enabled": "true",
    }


def test_a_connect_server_is_found_where_spark_s_users_name_it_and_never_shown(tmp_path: Path) -> None:
    settings = load(tmp_path, {}, {"SPARK_REMOTE": "sc://there:15002/;token=geheim"})
    assert settings.spark.remote.get_secret_value() == "sc://there:15002/;token=geheim"
    assert "geheim" not in repr(settings)
    ours = load(tmp_path, {}, {"SPARK_REMOTE": "sc://there", "PERAGO_SPARK__REMOTE": "sc://here"})
    assert ours.spark.remote.get_secret_value() == "sc://here"


def test_what_is_handed_to_spark_is_not_shown_either(tmp_path: Path) -> None:
    conf = {"spark.hadoop.fs.s3a.secret.key": "geheim"}
    assert "geheim" not in repr(load(tmp_path, {"spark": {"conf": conf}}, {}))


def test_a_misspelt_name_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"PERAGO_FENSE__POLICY: there is no section 'fense'; there are: budget"):
        load(tmp_path, {}, {"PERAGO_FENSE__POLICY": "disable"})
    load(tmp_path, {}, {"PERAGO_SOMETHING": "of somebody else's"})
    with pytest.raises(SettingsError, match=r"spark\.mastre: there is no such setting"):
        load(tmp_path, {"spark": {"mastre": "local"}}, {})
