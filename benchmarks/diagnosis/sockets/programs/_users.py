"""Users of the application on a port: each sends one request at a time."""

from __future__ import annotations

import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection

from _setting import SETTING


def user(start: float, port: int, numbers: list[int]) -> None:
    """Send a share of the requests, and read the answers."""
    time.sleep(start)
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    for turn, number in enumerate(numbers):
        if connection.sock is None:
            connection.sock = socket.socket()
            if buffer := SETTING.reader.get("buffer"):
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, int(buffer))
            connection.sock.connect(("127.0.0.1", port))
        request = SETTING.request(number, turn)
        connection.request("POST", f"/chat/{number}/{turn}")
        response = connection.getresponse()
        while response.read1(4096):
            time.sleep(SETTING.reader.get("pause_ms", 0) / 1000)
        response.close()
        time.sleep(request.between(SETTING.think_ms) / 1000)
    connection.close()


if __name__ == "__main__":
    with ThreadPoolExecutor(SETTING.users) as pool:
        users = [
            pool.submit(
                user,
                0.5 * first / SETTING.users,
                int(sys.argv[1]),
                list(range(first, SETTING.requests, SETTING.users)),
            )
            for first in range(SETTING.users)
        ]
        for each in users:
            each.result()
