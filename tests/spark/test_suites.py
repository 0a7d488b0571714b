"""Suites of pandera and Great Expectations as gates: they judge as the libraries do, or are refused by name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import pytest

from perago_spark import DatasetError, GateError, not_null
from perago_spark.api import gates as gate
from perago_spark.suites import gates_of
from perago_worker.api import errors
from tests.spark.lake import Lake, datasets

pytest.importorskip("pyspark")
pandas: Any = pytest.importorskip("pandas")
pa: Any = pytest.importorskip("pandera.pandas")

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN: Final = float("nan")
KINDS: Final = {"id": "bigint", "x": "double", "c": "string", "t": "string", "y": "double"}
#: Missing values, some that are no numbers, a letter outside ASCII, an end of a line, and an id that is there twice.
ROWS: Final = (
    (1, 1.5, "DE", "alpha", 1.0),
    (2, None, "FR", None, 2.0),
    (3, NAN, "DE", "beta\n", 3.0),
    (3, 9.0, None, "übergröße7", None),
    (5, -1.0, None, "b4", NAN),
    (6, None, "FR", "b5", 6.0),
)
Column, Check = pa.Column, pa.Check
PANDERA: Final[Mapping[str, Any]] = {
    "nullable": {"x": Column(float, nullable=True)},
    "not nullable, not a number": {"x": Column(float)},
    "not nullable": {"id": Column(int), "t": Column(str)},
    "another type": {"id": Column("int32")},
    "no such column": {"id": Column(int), "z": Column(int)},
    "a column that may be left out": {"id": Column(int), "z": Column(int, required=False)},
    "unique": {"id": Column(int, unique=True)},
    "unique but for nothing and no number": {"y": Column(float, unique=True, nullable=True)},
    "unique with missing values": {"c": Column(str, unique=True, nullable=True)},
    "at least": {"x": Column(float, Check.ge(-1), nullable=True)},
    "more than": {"x": Column(float, Check.gt(-1), nullable=True)},
    "at most": {"x": Column(float, Check.le(9), nullable=True)},
    "less than": {"x": Column(float, Check.lt(9), nullable=True)},
    "in range": {"id": Column(int, Check.in_range(1, 5))},
    "in range without its end": {"id": Column(int, Check.in_range(1, 5, include_max=False))},
    "in range without its start": {"id": Column(int, Check.in_range(1, 5, include_min=False))},
    "equal": {"c": Column(str, Check.eq("DE"), nullable=True)},
    "not equal": {"c": Column(str, Check.ne("IT"), nullable=True)},
    "accepted": {"c": Column(str, Check.isin(["DE", "FR"]), nullable=True)},
    "accepted, beside a missing value": {"c": Column(str, Check.isin(["DE", None]), nullable=True)},
    "not accepted": {"c": Column(str, Check.isin(["DE"]), nullable=True)},
    "forbidden": {"c": Column(str, Check.notin(["FR"]), nullable=True)},
    "not forbidden": {"c": Column(str, Check.notin(["IT"]), nullable=True)},
    "matches at the start": {"t": Column(str, Check.str_matches("[abü]"), nullable=True)},
    "matches not in the middle": {"t": Column(str, Check.str_matches("eta|lpha|b"), nullable=True)},
    "matches words of all letters": {"t": Column(str, Check.str_matches(r"\w+$"), nullable=True)},
    "matches to the end": {"t": Column(str, Check.str_matches(r"[a-z]+$"), nullable=True)},
    "contains": {"t": Column(str, Check.str_contains("[a4e]"), nullable=True)},
    "two checks of one name": {"t": Column(str, [Check.str_contains("4"), Check.str_contains(".")], nullable=True)},
    "contains not": {"t": Column(str, Check.str_contains("4"), nullable=True)},
    "starts": {"c": Column(str, Check.str_startswith("D"), nullable=True)},
    "ends": {"c": Column(str, Check.str_endswith("E"), nullable=True)},
    "length": {"t": Column(str, Check.str_length(2, 10), nullable=True)},
    "too long": {"t": Column(str, Check.str_length(2, 9), nullable=True)},
    "exact length": {"c": Column(str, Check.str_length(exact_value=2), nullable=True)},
}
WHOLE: Final[Mapping[str, dict[str, Any]]] = {
    "strict": {"strict": True},
    "ordered": {"ordered": True},
    "together": {"unique": ["id", "x"]},
    "together with missing values": {"unique": ["c"]},
    "together, nothing and no number": {"unique": ["y"]},
    "together with one that is not there": {"unique": ["id", "z"]},
    "nothing": {},
}


def frame_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    schema = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
    made: DataFrame = cast("Any", spark).createDataFrame(list(rows), schema)
    return made.coalesce(1)


def plain(rows: Sequence[tuple[Any, ...]]) -> Any:  # noqa: ANN401  a frame of pandas
    found = pandas.DataFrame(rows, columns=list(KINDS))
    return found.astype({"id": "int64", "x": "float64", "c": "string", "t": "string", "y": "float64"})


def ours(
    spark: SparkSession, lake: Lake, suites: Mapping[str, Any], rows: Sequence[tuple[Any, ...]]
) -> dict[str, bool]:
    """Judge all suites by their gates, in one pass over the rows."""
    gates = {name: gates_of([each], KINDS) for name, each in suites.items()}
    every = tuple(each for several in gates.values() for each in several)
    checks = gate.Checks.counting(every)
    watched = checks.prepared(frame_of(spark, rows), datasets(spark, lake, lake.head), "unmet")
    figures = watched.agg(*(each.alias(name) for name, each in checks.figures().items())).first()
    assert figures is not None
    found = iter(checks.verdicts(figures.asDict(), gate.Counts(0, len(rows), len(rows))))
    judged = {name: [next(found).passed for _ in several] for name, several in gates.items()}
    return {name: all(several) for name, several in judged.items()}


def test_schemas_of_pandera_judge_as_pandera_does(spark: SparkSession, lake: Lake) -> None:
    """Each is judged by both; of most there is one that passes and one that does not."""
    base = {"c": Column(str, nullable=True), "id": Column(int)}
    schemas = {name: pa.DataFrameSchema(columns) for name, columns in PANDERA.items()}
    schemas |= {name: pa.DataFrameSchema(base, **options) for name, options in WHOLE.items()}
    whole = plain(ROWS)

    def theirs(schema: Any) -> bool:  # noqa: ANN401  pandera's
        try:
            schema.validate(whole, lazy=True)
        except pa.errors.SchemaErrors:
            return False
        return True

    judged = {name: theirs(each) for name, each in schemas.items()}
    assert {True, False} == set(judged.values())
    assert ours(spark, lake, schemas, ROWS) == judged


def _own(series: Any) -> Any:  # noqa: ANN401  pandas'
    return series > 0


REFUSED: Final[Mapping[str, tuple[Any, str]]] = {
    "a function": (lambda: {"x": Column(float, Check(_own))}, "check _own of column x"),
    "a function by another's name": (lambda: {"x": Column(float, Check(_own, name="isin"))}, "not the one of pandera"),
    "a test": (
        lambda: {"x": Column(float, pa.Hypothesis.one_sample_ttest(popmean=1.0))},
        "one_sample_ttest of column x",
    ),
    "unique values": (lambda: {"c": Column(str, Check.unique_values_eq(["DE"]))}, "check unique_values_eq of column c"),
    "coercion": (lambda: {"x": Column(float, coerce=True)}, "column x (coerce)"),
    "a pattern of names": (lambda: {"x.*": Column(float, regex=True)}, "column x.* (regex)"),
    "a warning": (lambda: {"x": Column(float, Check.ge(0, raise_warning=True))}, "raise_warning=True"),
    "a missing value that fails": (lambda: {"x": Column(float, Check.ge(0, ignore_na=False))}, "ignore_na=False"),
    "a type": (lambda: {"c": Column("category")}, "dtype category"),
    "a group of Python's": (lambda: {"c": Column(str, Check.str_matches("(?P<land>DE)"))}, "'(?P' has another meaning"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_pandera_checks_and_a_write_cannot_count_is_refused_by_name(what: str) -> None:
    columns, said = REFUSED[what]
    with pytest.raises(DatasetError) as caught:
        gates_of([not_null("id"), pa.DataFrameSchema(columns())], KINDS)
    assert said in str(caught.value)
    assert "expected checks of pandera that are figures of one write" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strict": "filter"}, "strict='filter'"),
        ({"checks": Check(_own)}, "check _own of the whole frame"),
        ({"index": pa.Index(int)}, "the schema (index)"),
        ({"dtype": "float64"}, "dtype of the whole schema"),
    ],
)
def test_what_a_schema_asks_of_a_whole_frame_is_refused_too(options: dict[str, Any], said: str) -> None:
    with pytest.raises(DatasetError) as caught:
        gates_of([pa.DataFrameSchema({"id": Column(int)}, **options)], KINDS)
    assert said in str(caught.value)


def test_anything_else_is_no_gate() -> None:
    with pytest.raises(DatasetError, match=r"or a suite of Great Expectations; found a str\. Pass one of these"):
        gates_of(["id is not null"], KINDS)


@pytest.mark.parametrize("alone", [not_null("id"), pa.DataFrameSchema({"id": Column(int)})])
def test_a_gate_or_a_schema_without_brackets_is_told_of_them(alone: Any) -> None:  # noqa: ANN401  no list
    with pytest.raises(DatasetError, match=r"expected a list of gates; found a \w+\. Put it into brackets"):
        gates_of(alone, KINDS)


@pytest.mark.parametrize(
    ("demand", "found"),
    [(Column(int), "a Column"), (Check.ge(1), "a Check"), (pa.DataFrameSchema, "DataFrameSchema")],
)
def test_a_part_of_pandera_that_is_no_schema_is_refused(demand: Any, found: str) -> None:  # noqa: ANN401  theirs
    with pytest.raises(DatasetError, match=f"a DataFrameSchema or a DataFrameModel of pandera; found {found}"):
        gates_of([demand], KINDS)


def test_a_body_that_misses_a_library_is_told_which_extra_has_it() -> None:
    for module in ("pandera", "great_expectations"):
        missing = ModuleNotFoundError(f"No module named {module!r}", name=module)
        wanted = f"ModuleNotFoundError: {module} is not installed: pip install 'perago-core[suites]'"
        assert errors.said(missing) == wanted


# ---- Great Expectations


@pytest.fixture(scope="module")
def gx() -> Any:  # noqa: ANN401  a module
    """Import it once; it takes seconds."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    pytest.importorskip("great_expectations")
    return import_module("great_expectations")


#: Type and arguments: what Great Expectations itself writes down.
EXPECTED: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "not null": ("ColumnValuesToNotBeNull", {"column": "id"}),
    "not null, but null": ("ColumnValuesToNotBeNull", {"column": "c"}),
    "null": ("ColumnValuesToBeNull", {"column": "c"}),
    "between": ("ColumnValuesToBeBetween", {"column": "x", "min_value": -1, "max_value": 9}),
    "strictly above": ("ColumnValuesToBeBetween", {"column": "x", "min_value": -1, "strict_min": True}),
    "strictly below": ("ColumnValuesToBeBetween", {"column": "x", "max_value": 9, "strict_max": True}),
    "in set": ("ColumnValuesToBeInSet", {"column": "c", "value_set": ["DE", "FR"]}),
    "out of set": ("ColumnValuesToBeInSet", {"column": "c", "value_set": ["DE"]}),
    "not in set": ("ColumnValuesToNotBeInSet", {"column": "c", "value_set": ["FR"]}),
    "unique": ("ColumnValuesToBeUnique", {"column": "t"}),
    "not unique": ("ColumnValuesToBeUnique", {"column": "id"}),
    "unique but for missing values": ("ColumnValuesToBeUnique", {"column": "x"}),
    "together": ("CompoundColumnsToBeUnique", {"column_list": ["id", "x"]}),
    "together, all missing": ("CompoundColumnsToBeUnique", {"column_list": ["c", "x"]}),
    "together, never left out": ("CompoundColumnsToBeUnique", {"column_list": ["c", "x"], "ignore_row_if": "never"}),
    "together, any missing": (
        "CompoundColumnsToBeUnique",
        {"column_list": ["c", "x"], "ignore_row_if": "any_value_is_missing"},
    ),
    "regex": ("ColumnValuesToMatchRegex", {"column": "t", "regex": "[a4e]"}),
    "regex, not found": ("ColumnValuesToMatchRegex", {"column": "t", "regex": "^b"}),
    "not regex": ("ColumnValuesToNotMatchRegex", {"column": "t", "regex": r"\d"}),
    "length": ("ColumnValueLengthsToEqual", {"column": "c", "value": 2}),
    "lengths": ("ColumnValueLengthsToBeBetween", {"column": "t", "min_value": 2, "max_value": 9}),
    "lengths, strictly above": (
        "ColumnValueLengthsToBeBetween",
        {"column": "c", "min_value": 2, "max_value": 9, "strict_min": True},
    ),
    "lengths, strictly below": (
        "ColumnValueLengthsToBeBetween",
        {"column": "c", "min_value": 1, "max_value": 2, "strict_max": True},
    ),
    "in set, beside a missing value": ("ColumnValuesToBeInSet", {"column": "c", "value_set": ["DE", None]}),
    "column": ("ColumnToExist", {"column": "id"}),
    "no column": ("ColumnToExist", {"column": "z"}),
    "rows": ("TableRowCountToBeBetween", {"min_value": 1, "max_value": 4}),
    "rows, strictly above": ("TableRowCountToBeBetween", {"min_value": 6, "strict_min": True}),
    "rows, strictly below": ("TableRowCountToBeBetween", {"max_value": 6, "strict_max": True}),
    "as many rows": ("TableRowCountToEqual", {"value": 6}),
}


def expectation(gx: Any, kind: str, **arguments: Any) -> Any:  # noqa: ANN401  theirs
    return getattr(gx.expectations, f"Expect{kind}")(**arguments)


def test_expectations_judge_as_great_expectations_does(spark: SparkSession, lake: Lake, gx: Any) -> None:  # noqa: ANN401  a module
    """On values that are numbers: what is not one is missing to pandas, and is not to Spark."""
    rows = [tuple(None if each != each else each for each in row) for row in ROWS]  # noqa: PLR0124  not a number
    expected = {name: expectation(gx, kind, **arguments) for name, (kind, arguments) in EXPECTED.items()}
    context = gx.get_context(mode="ephemeral")
    whole = (
        context.data_sources.add_pandas("here").add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")
    )
    batch = whole.get_batch({"dataframe": plain(rows)})
    judged = {name: bool(batch.validate(each).success) for name, each in expected.items()}
    assert {True, False} == set(judged.values())
    assert ours(spark, lake, expected, rows) == judged


def test_what_is_expected_and_a_write_cannot_count_is_refused_by_name(gx: Any) -> None:  # noqa: ANN401  a module
    suite = gx.ExpectationSuite(
        name="orders",
        expectations=[
            expectation(gx, "ColumnValuesToNotBeNull", column="id"),
            expectation(gx, "ColumnMeanToBeBetween", column="x", min_value=0),
            expectation(gx, "ColumnValuesToBeInSet", column="c", value_set=["DE"], mostly=0.9),
            expectation(gx, "ColumnValuesToBeUnique", column="id", severity="warning"),
            expectation(gx, "ColumnValuesToNotBeInSet", column="c", value_set={"$PARAMETER": "forbidden"}),
            expectation(gx, "ColumnValuesToMatchRegex", column="c"),
        ],
    )
    with pytest.raises(DatasetError) as caught:
        gates_of([suite], KINDS)
    for said in (
        "expect_column_mean_to_be_between(column='x'",
        "(mostly)",
        "(severity)",
        "(value_set is a $PARAMETER)",
        "(no regex)",
    ):
        assert said in str(caught.value)
    assert "expect_column_values_to_not_be_null" not in str(caught.value)


def test_a_class_of_expectations_is_refused(gx: Any) -> None:  # noqa: ANN401  a module
    with pytest.raises(DatasetError, match="an expectation, made; found ExpectColumnToExist"):
        gates_of([gx.expectations.ExpectColumnToExist], KINDS)


@pytest.mark.parametrize("via", ["arrow", "native"])
def test_a_write_passes_or_fails_by_a_schema_a_model_a_suite_and_a_gate_at_once(
    spark: SparkSession,
    lake: Lake,
    gx: Any,  # noqa: ANN401  a module
    via: Literal["arrow", "native"],
) -> None:
    class Orders(pa.DataFrameModel):  # type: ignore[misc]
        id: int = pa.Field(ge=1, unique=True)

    schema = pa.DataFrameSchema({"c": Column(str, Check.isin(["DE", "FR"]), nullable=True)})
    suite = gx.ExpectationSuite(name="o", expectations=[expectation(gx, "TableRowCountToBeBetween", max_value=3)])
    demands = [Orders, schema, suite, not_null("id")]
    ws = datasets(spark, lake, lake.head)
    assert ws.write("orders", frame_of(spark, ROWS[:3]), gates=demands, via=via).rows == 3
    with pytest.raises(GateError) as caught:
        ws.write("other", frame_of(spark, [*ROWS, (0, 1.0, "IT", "x", 0.0)]), gates=demands, via=via)
    for said in (
        "id unique",
        "greater_than_or_equal_to(1)",
        "isin(['DE', 'FR'])",
        "row_count",
        "found 2 row(s)",
        "7 rows",
    ):
        assert said in str(caught.value)
