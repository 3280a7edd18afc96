"""A Django project in one module: two views, a stream, and one that raises."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import django
from django import conf, urls
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

import latspan

_settings: Any = conf.settings
_urls: Any = urls
"""Django has no types."""


def set_up() -> None:
    """Configure Django to serve this module, once in a process."""
    if not _settings.configured:
        _settings.configure(
            ALLOWED_HOSTS=["*"],
            ROOT_URLCONF=__name__,
            SECRET_KEY="for tests",
            MIDDLEWARE=[],
            LOGGING_CONFIG=None,
        )
        django.setup()


def _item(request: HttpRequest, item: int) -> HttpResponse:
    with latspan.request("answer"), latspan.stage("retrieve"):
        pass
    return HttpResponse(f"item {item}".encode())


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
    _urls.path("items/<int:item>/", _item),
    _urls.path("shop/", _urls.include([_urls.path("items/<int:item>/", _item)])),
    _urls.re_path(r"^years/(?P<item>[0-9]{4})/$", _item),
    _urls.path("fails/", _fails),
    _urls.path("chat/<room>/", _stream),
]
