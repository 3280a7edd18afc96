"""A web application that does not know latspan, asked three times: ``… FRAMEWORK``."""

from __future__ import annotations

import http.client
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import uvicorn

Stop = Callable[[], None]


def fastapi_application() -> Any:
    from fastapi import FastAPI

    app = FastAPI()

    @app.get("/items/{item}")
    async def item(item: int) -> int:
        return item

    return app


def flask_application() -> Any:
    from flask import Flask

    app = Flask(__name__)

    @app.get("/items/<int:item>")
    def item(item: int) -> str:
        return str(item)

    return app


def django_application() -> Any:
    import django
    from django import conf
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.urls import path

    def item(request: HttpRequest, item: int) -> HttpResponse:
        return HttpResponse(str(item).encode())

    urls = type("urls", (), {"urlpatterns": [path("items/<int:item>", item)]})
    settings: Any = conf.settings
    settings.configure(
        ALLOWED_HOSTS=["*"], ROOT_URLCONF=urls, SECRET_KEY="for tests", LOGGING_CONFIG=None
    )
    django.setup()
    return get_wsgi_application()


def over_asgi(app: Any) -> tuple[int, Stop]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()

    def stop() -> None:
        server.should_exit = True
        thread.join()
        listener.close()

    return listener.getsockname()[1], stop


class Quiet(WSGIRequestHandler):
    """A handler that logs no requests."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""


def over_wsgi(app: Any) -> tuple[int, Stop]:
    server = make_server("127.0.0.1", 0, app, handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return server.server_port, stop


def main(framework: str) -> None:
    application, serve = {
        "fastapi": (fastapi_application, over_asgi),
        "flask": (flask_application, over_wsgi),
        "django": (django_application, over_wsgi),
    }[framework]
    port, stop = serve(application())
    for number in range(3):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", f"/items/{number}")
        sys.stdout.write(connection.getresponse().read().decode())
        connection.close()
    stop()


main(*sys.argv[1:])
