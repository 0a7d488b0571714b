"""``[spark]``: what Spark's users write, in the way they write it, and secrets that stay secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from perago_worker.config.load import SettingsError, load

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
    with pytest.raises(SettingsError, match=r"spark\.mastre: there is no such setting"):
        load(tmp_path, {"spark": {"mastre": "local"}}, {})
