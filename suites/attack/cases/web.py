"""`fetch`: addresses it must not reach, and pages made to hurt it."""

import socket

from harness import machine
from harness.case import case, check
from harness.website import Website


def forms_of_loopback(port):
    """Ways to write this machine's own address."""
    hosts = ["127.0.0.1", "localhost", "LOCALHOST", "localhost.", "127.1", "127.0.1", "2130706433", "0x7f000001"]
    hosts += ["0177.0.0.1", "0x7f.0.0.1", "017700000001", "127.0.0.1.", "0", "0.0.0.0", "127.255.255.254"]
    hosts += ["[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::127.0.0.1]"]
    hosts += ["[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[::1%25lo]", "user@127.0.0.1", "user:pass@127.0.0.1"]
    hosts += ["public.example@127.0.0.1", "127.0.0.1%00.example", "①②⑦.0.0.1"]
    hosts += ["127。0。0。1", "ⓛocalhost", "localhost%2e", "sub.localhost", "ip6-localhost", socket.gethostname()]
    hosts += ["10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "[fe80::1]", "[fc00::1]"]
    return [f"http://{host}:{port}/hit" for host in hosts]


@case("held", "no way to write a local address makes `fetch` go there", limit=120)
def no_form_of_a_local_address_is_fetched(cx):
    site = cx.keep(Website())
    caller = cx.serve().caller()
    urls = forms_of_loopback(site.port)
    urls += [f"http:/\\127.0.0.1:{site.port}/", f"//127.0.0.1:{site.port}/"]
    urls += ["file:///etc/passwd", "gopher://127.0.0.1/"]
    for url in urls:
        answer = caller.call("fetch", url=url, timeout_s=2)
        check(answer.refused, f"{url} was fetched: {answer.text[:80]}")
    cx.note(f"{len(urls)} addresses")
    check(not site.hits, f"the site was reached: {site.hits}")


@case("held", "a page that may be fetched must not redirect `fetch` to one that may not")
def redirects_lead_nowhere_that_is_forbidden(cx):
    forbidden = cx.keep(Website())
    targets = forms_of_loopback(forbidden.port)[:12] + ["file:///etc/passwd", f"//127.0.0.1:{forbidden.port}/x"]
    site = cx.keep(Website(redirect=lambda number: targets[int(number)]))
    caller = cx.serve("--fetch-allow", f"127.0.0.1:{site.port}").caller()
    for number, target in enumerate(targets):
        answer = caller.call("fetch", url=f"http://127.0.0.1:{site.port}/to/{number}", timeout_s=3)
        check(answer.refused, f"the redirect to {target} was followed: {answer.text[:80]}")
    check(len(site.hits) == len(targets), f"only {len(site.hits)} redirects were asked for")
    check(not forbidden.hits, f"the forbidden site was reached: {forbidden.hits}")


@case("held", "a page without end is read up to a limit")
def a_page_without_end_is_cut(cx):
    site = cx.keep(Website())
    server = cx.serve("--fetch-allow", f"127.0.0.1:{site.port}")
    before = machine.resident_bytes(server.pid)
    answer = server.caller().call("fetch", url=f"http://127.0.0.1:{site.port}/endless", timeout_s=20)
    grown = machine.peak_bytes(server.pid) - before
    cx.note(f"one page took {machine.mib(grown)}")
    check("words without end" in answer.text, f"nothing came of it: {answer.text[:100]}")
    check(grown < 64 * machine.MIB, f"one page took {machine.mib(grown)}")
