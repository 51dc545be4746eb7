"""The API's listening sockets: what each accepted connection inherits from them."""

import socket
from contextlib import closing

from turnstile.producer.server import listen


def test_a_response_in_two_writes_does_not_wait_for_the_clients_ack() -> None:
    [listening] = listen("127.0.0.1", 0)
    with closing(listening):
        listening.listen()
        with socket.create_connection(listening.getsockname()):
            connection, _ = listening.accept()
            with connection:
                assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
