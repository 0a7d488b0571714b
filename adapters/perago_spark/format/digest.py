"""A digest of rows that does not depend on their order, nor on how they were cut into batches, files and tasks.

Each row becomes one number of 64 bits, and the digest is the sum of these numbers. Not their exclusive or: two equal
rows would cancel each other, and a data set of pairs would equal the empty one.

Spark gives neither a stable order nor stable files, and Parquet bytes differ from run to run. So equal content can only
be recognised by its rows. It is no protection against someone who looks for a collision, and need not be.

A value that is missing adds nothing to its row, and columns are known by their names: a row of a file that was written
before a column was added has the same number as the same row with nothing in that column.

Numbers are made column by column with NumPy. Nested columns are taken apart: a list is its elements by position, a
struct its fields by position, a map the list of its entries.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from perago_spark.format.arrow import Batch, Column, pa, pc

Numbers: TypeAlias = npt.NDArray[np.uint64]

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
#: The base of the polynomial over the elements of a list, or the words of a text. Odd, so that no power of it is 0.
_BASE: Final = np.uint64(0xD6E8FEB86659FD93)
#: Bytes of one number.
_WORD: Final = 8
#: For each number of bytes, what keeps so many of a word.
_KEPT: Final = np.array([(1 << (8 * count)) - 1 for count in range(_WORD + 1)], dtype=np.uint64)
#: Bytes from which on a text is hashed by itself: word by word, all texts would wait for the longest.
_LONG: Final = 256
#: What stands for a value that is missing.
_NOTHING: Final = np.uint64(0x5851F42D4C957F2D)


def row_digest(batch: Batch) -> int:
    """Sum the hashes of the rows; sums of several batches add up with ``seal.combined``."""
    numbers = np.zeros(batch.num_rows, dtype=np.uint64)
    for name, found in zip(batch.schema.names, batch.columns, strict=True):
        column = found.storage if isinstance(found, pa.ExtensionArray) else found
        # Mixed with its column's name: else ``(1, 2)`` and ``(2, 1)`` would be the same row.
        cells = _mixed(_column(column) ^ _named(name))
        if column.null_count:
            cells[pc.is_null(column).to_numpy(zero_copy_only=False)] = 0
        numbers += cells
    return int(_mixed(numbers).sum(dtype=np.uint64))


def key_numbers(batch: Batch, columns: Sequence[str]) -> Numbers:
    """Return a number for each row that has a value in all of these columns: equal values have equal numbers."""
    found = [batch.column(each) for each in columns]
    numbers = _rows(found, batch.num_rows)
    missing = np.zeros(batch.num_rows, dtype=np.bool_)
    for each in found:
        if each.null_count:
            missing |= pc.is_null(each).to_numpy(zero_copy_only=False)
    return numbers[~missing] if missing.any() else numbers


@cache
def _named(column: str) -> np.uint64:
    return np.uint64(int.from_bytes(hashlib.blake2b(column.encode("utf-8"), digest_size=_WORD).digest(), "little"))


def _rows(columns: list[Column], length: int) -> Numbers:
    numbers = np.zeros(length, dtype=np.uint64)
    for column in columns:
        # Mixing between the columns keeps ``(1, 2)`` and ``(2, 1)`` apart.
        numbers = _mixed(numbers * _BASE + _column(column))
    return numbers


def _mixed(numbers: Numbers) -> Numbers:
    """Spread every bit over all others (the finaliser of splitmix64)."""
    numbers = numbers + _GOLDEN
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return cast("Numbers", numbers ^ (numbers >> np.uint64(31)))


def _column(column: Column) -> Numbers:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    numbers = _mixed(_values(column))
    if column.null_count:
        missing = pc.is_null(column).to_numpy(zero_copy_only=False)
        numbers = np.where(missing, _NOTHING, numbers)
    return numbers


def _values(column: Column) -> Numbers:
    """Hash each element; the value where an element is null does not matter."""
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.uint64)
    if pa.types.is_dictionary(kind):
        return _values(column.dictionary_decode())
    if pa.types.is_struct(kind):
        return _rows(column.flatten(), len(column))
    if pa.types.is_map(kind):
        entries = pa.StructArray.from_arrays([column.keys, column.items], names=["key", "value"])
        return _runs(_column(entries), _offsets(column, np.int32))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        wide = np.int64 if pa.types.is_large_list(kind) else np.int32
        return _runs(_column(column.values), _offsets(column, wide))
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(_bytes(column), _offsets(column, np.int32))
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return _texts(_bytes(column), _offsets(column, np.int64))
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    return _fixed(column)


def _fixed(column: Column) -> Numbers:
    """Hash numbers, dates and times by their bits; a decimal has two words, so each is mixed in."""
    width = column.type.bit_width // 8
    raw = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    raw = raw[column.offset * width : (column.offset + len(column)) * width].reshape(len(column), width)
    if width < _WORD:
        raw = np.pad(raw, ((0, 0), (0, _WORD - width)))
    words = np.ascontiguousarray(raw).view("<u8").astype(np.uint64)
    numbers = words[:, 0]
    for number in range(1, words.shape[1]):
        numbers = _mixed(numbers) + words[:, number]
    return numbers


def _offsets(column: Column, wide: type[Any]) -> npt.NDArray[np.int64]:
    if not len(column):
        return np.zeros(1, dtype=np.int64)  # older Arrow in Java, that of Spark 4.0, leaves out where nothing begins
    found = np.frombuffer(column.buffers()[1], dtype=wide)
    return found[column.offset : column.offset + len(column) + 1].astype(np.int64)


def _bytes(column: Column) -> npt.NDArray[np.uint8]:
    data = column.buffers()[2]
    return np.frombuffer(b"" if data is None else data, dtype=np.uint8)


def _texts(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Numbers:
    """Hash each text: its length, then its bytes mixed in eight at a time, for all texts at once."""
    lengths = np.diff(offsets)
    numbers = lengths.astype(np.uint64)
    first, last = int(offsets[0]), int(offsets[-1])
    padded = np.concatenate([data[first:last], np.zeros(_WORD, dtype=np.uint8)])
    # A word begins at every byte.
    words: Numbers = np.ndarray((len(padded) - _WORD + 1,), "<u8", padded, strides=(1,))
    starts = offsets[:-1] - first
    long = np.flatnonzero(lengths > _LONG)
    for index in long:
        text = padded[starts[index] : starts[index] + lengths[index]]
        numbers[index] = int.from_bytes(hashlib.blake2b(text.tobytes(), digest_size=_WORD).digest(), "little")
    left = lengths.copy()
    left[long] = 0
    which = np.flatnonzero(left)
    for at in range(0, _LONG, _WORD):
        if len(which) == 0:
            break
        word = words[starts[which] + at] & _KEPT[np.minimum(left[which] - at, _WORD)]
        numbers[which] = _mixed(numbers[which] * _BASE + word)
        which = which[left[which] > at + _WORD]
    return numbers


def _runs(elements: Numbers, offsets: npt.NDArray[np.int64]) -> Numbers:
    """Hash each list of elements: their polynomial, by differences of one running sum, and the length.

    The position within the run decides the power, so that the same text has the same number wherever it stands.
    """
    lengths = np.diff(offsets)
    if len(lengths) == 0:
        return np.zeros(0, dtype=np.uint64)
    first, last = int(offsets[0]), int(offsets[-1])
    starts = np.repeat(offsets[:-1], lengths)
    powers = np.cumprod(np.full(int(lengths.max()) + 1, _BASE, dtype=np.uint64))
    positions = np.arange(first, last, dtype=np.int64) - starts
    weighted = (elements[first:last] + np.uint64(1)) * powers[positions]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(weighted, dtype=np.uint64)])
    found: Numbers = sums[offsets[1:] - first] - sums[offsets[:-1] - first] + lengths.astype(np.uint64)
    return found
