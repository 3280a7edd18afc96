"""A Django project in one module: two views, a stream, and one that raises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import django
from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.urls import include, path, re_path

import latspan

__all__ = ["set_up"]


def set_up(*, middleware: tuple[str, ...] = ()) -> None:
    """Configure Django to serve this module, once in a process."""
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            ROOT_URLCONF=__name__,
            SECRET_KEY="for tests",
            MIDDLEWARE=[*middleware],
            LOGGING_CONFIG=None,
        )
        django.setup()


def _item(request: HttpRequest, item: int) -> HttpResponse:
    with latspan.request("answer"), latspan.stage("retrieve"):
        pass
    return HttpResponse(f"item {item}")


def _fails(request: HttpRequest) -> HttpResponse:
    raise LookupError("secret")


def _stream(request: HttpRequest, room: str) -> StreamingHttpResponse:
    def words() -> Iterator[str]:
        with latspan.stage("decode"):
            yield from ("Hello", "there")

    async def awords() -> AsyncIterator[str]:
        with latspan.stage("decode"):
            for word in ("Hello", "there"):
                yield word

    parts: Any = awords() if hasattr(request, "scope") else words()
    return StreamingHttpResponse(parts)


urlpatterns = [
    path("items/<int:item>/", _item),
    path("shop/", include([path("items/<int:item>/", _item)])),
    re_path(r"^years/(?P<item>[0-9]{4})/$", _item),
    path("fails/", _fails),
    path("chat/<room>/", _stream),
]
