"""Answers that a bucket's client believes and no bucket gives: each was taken for done, for nothing or for a file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from io import BytesIO

import pytest
from attrs import evolve

from perago_bucket import BucketStore, Connection
from perago_core.answers import Done, Unknown
from tests.support.hostile import s3
from tests.support.hostile.answers import Right
from tests.support.hostile.lakefs import NAME
from tests.support.hostile.server import Asked, Hostile

PAGE = Right(200, b"<html><title>Sign in</title></html>", "text/html", headers=(("ETag", '"67ab43"'),))


@contextmanager
def answering(answers: Callable[[Asked], Right]) -> Generator[tuple[BucketStore, list[Asked]]]:
    asked: list[Asked] = []

    def noted(request: Asked) -> Right:
        asked.append(request)
        return answers(request)

    server = Hostile(noted)
    keys = (("access_key_id", "key"), ("secret_access_key", "secret"), ("region", "us-east-1"))
    with server.running():
        yield BucketStore(Connection(f"s3://{s3.BUCKET}", (("endpoint", server.url), *keys), timeout=2.0)), asked


def test_a_write_that_was_led_to_a_page_with_a_tag_is_not_taken_for_stored() -> None:
    """The client follows a 303 with a GET, and gives the tag of what it finds there."""

    def led(asked: Asked) -> Right:
        if asked.method == "PUT":
            return Right(303, b"", "", headers=(("Location", "/sign-in"),))
        return PAGE if asked.path == "/sign-in" else s3.answers(asked)

    with answering(led) as (store, asked):
        put = store.sink(s3.TARGET, NAME).put("data.txt", BytesIO(b"x"))
        assert "/sign-in" in [each.path for each in asked]
        assert isinstance(put, Unknown), put
        assert isinstance(store.barrier(s3.TARGET), Unknown)


def test_a_page_in_place_of_a_listing_is_not_an_empty_one() -> None:
    with answering(lambda _: PAGE) as (store, _):
        assert isinstance(store.staging_names("lake"), Unknown)


def test_a_page_that_came_once_in_place_of_a_listing_is_not_an_empty_one() -> None:
    """Whoever asks the bucket afterwards hears the truth: only not whether the page was a listing."""
    pages = [PAGE]

    def restarting(asked: Asked) -> Right:
        return pages.pop() if "list-type" in asked.path and pages else s3.answers(asked)

    with answering(restarting) as (store, _):
        assert store.staging_names("lake") == Done((NAME,))
    assert not pages


def test_no_listing_that_comes_back_empty_makes_garbage_of_everything() -> None:
    """Where branches were listed by themselves, and a page came, nothing was reached from any, and all of it went."""

    def branches_gone(asked: Asked) -> Right:
        return PAGE if "list-type" in asked.path and "branches" in asked.path else s3.answers(asked)

    with answering(branches_gone) as (store, asked):
        collected = store.collect_objects("lake", (), 0.0)
        removed = [each for each in asked if each.method == "DELETE" or "?delete" in each.path]
        assert not any(b"data/first" in each.body for each in removed), (collected, removed)


def test_a_page_that_says_404_is_not_a_missing_object() -> None:
    with answering(lambda _: evolve(PAGE, status=404)) as (store, _):
        assert isinstance(store.head(s3.TARGET), Unknown)


def test_a_read_that_was_led_elsewhere_finds_nothing_of_ours_missing_there() -> None:
    """The client follows it, and another bucket says rightly that it has no such object."""
    with answering(
        lambda asked: (
            s3.answers(asked)
            if asked.path == "/elsewhere"
            else Right(307, b"", "", headers=(("Location", "/elsewhere"),))
        )
    ) as (store, asked):
        assert isinstance(store.head(s3.TARGET), Unknown)
        assert "/elsewhere" in [each.path for each in asked]


def test_an_object_without_a_tag_is_not_read_because_its_change_would_have_no_condition() -> None:
    with answering(lambda asked: evolve(s3.answers(asked), headers=())) as (store, asked):
        assert isinstance(store.barrier(s3.TARGET), Unknown)
        assert not [each for each in asked if each.method == "PUT"]


def test_a_page_in_place_of_a_file_is_not_its_content() -> None:
    """It would have been the input of this task and, out of the cache, of every later one."""

    def page(asked: Asked) -> Right:
        return PAGE if "/data/" in asked.path else s3.answers(asked)

    with answering(page) as (store, _):
        opened = store.read("lake", s3.held().first).get("data.txt")
        assert isinstance(opened, Done)
        with opened.value as file, pytest.raises(OSError, match="something else was answered"):
            file.read()
