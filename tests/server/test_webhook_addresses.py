"""Which addresses webhooks may be posted to."""

from __future__ import annotations

import ipaddress

import pytest

from windlass.errors import ValidationError
from windlass.server.webhooks.addresses import LONGEST_URL, check_address, may_be_reached

PUBLIC = """
1.1.1.1 8.8.8.8 172.15.255.255 172.32.0.1 100.63.255.255 100.128.0.1 2606:4700::1111
2001:4860:4860::8888 ::ffff:8.8.8.8 64:ff9b::8.8.8.8 2002:808:808::1
"""

OTHERS = """
127.0.0.1 127.255.255.254 10.0.0.1 172.16.0.1 172.31.255.255 192.168.0.1 169.254.169.254 0.0.0.0
0.1.2.3 100.64.0.1 100.127.255.255 224.0.0.1 239.255.255.255 255.255.255.255 240.0.0.1 198.18.0.1
192.0.0.8 192.0.2.1 198.51.100.1 203.0.113.1 192.88.99.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1
fd12:3456::1 fec0::1 ff02::1 2001:db8::1 100::1 3fff::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1
::ffff:169.254.169.254 64:ff9b::127.0.0.1 64:ff9b::10.0.0.1 64:ff9b:1::8.8.8.8 2002:7f00:1::1
2002:a00:1::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 ::127.0.0.1 ::8.8.8.8
"""


@pytest.mark.parametrize("text", PUBLIC.split())
def test_public_addresses_may_be_reached(text: str) -> None:
    assert may_be_reached(ipaddress.ip_address(text), ())


@pytest.mark.parametrize("text", OTHERS.split())
def test_no_other_may_unless_it_is_allowed(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert not may_be_reached(address, ())
    everything = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
    assert may_be_reached(address, everything)


def test_an_address_inside_another_must_be_allowed_itself() -> None:
    inner = (ipaddress.ip_network("10.0.0.0/8"),)
    for text in ("10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::1"):
        assert may_be_reached(ipaddress.ip_address(text), inner)
    outer = (ipaddress.ip_network("2002::/16"),)
    assert not may_be_reached(ipaddress.ip_address("2002:a01:203::1"), outer)


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/windlass?shop=7",
        "http://hooks.example:8080",
        "https://8.8.8.8/x",
        "https://[2606:4700::1111]/x",
        "https://10.hooks.example/",
    ],
)
def test_urls_that_jobs_may_be_given(url: str) -> None:
    assert check_address(url) == url


@pytest.mark.parametrize(
    "url",
    [
        None,
        7,
        "",
        "hooks.example",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "http://",
        "http:///x",
        "https://hooks.example:99999/",
        "https://hooks.example:port/",
        "https://user:word@hooks.example/",
        "https://hooks.example/a b",
        "https://hooks.example/\n",
        "https://[::1",
        "https://hooks.example/" + "x" * LONGEST_URL,
        "http://localhost/",
        "http://LOCALHOST./",
        "http://a.localhost/",
        "http://127.0.0.1/",
        "http://127.0.0.1./",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://[::1]:80/",
        "http://[::ffff:127.0.0.1]/",
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
    ],
)
def test_urls_that_jobs_may_not_be_given(url: object) -> None:
    with pytest.raises(ValidationError) as refused:
        check_address(url)
    assert refused.value.field == "webhook"


def test_allowed_networks_may_be_named() -> None:
    allow = (ipaddress.ip_network("127.0.0.0/8"),)
    assert check_address("http://localhost:8000/x", allow)
    with pytest.raises(ValidationError):
        check_address("http://10.0.0.1/", allow)
