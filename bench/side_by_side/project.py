"""The project that every task begins with: a small shop, with the odd files that real projects have."""

import base64
import json
import random
import struct
import zlib

CART = '''"""The cart of a customer."""

from shop.prices import price_of, with_discount


class Cart:
    def __init__(self, customer):
        self.customer = customer
        self.items = []

    def add(self, name, count=1):
        if count < 1:
            raise ValueError("count must be positive")
        self.items.append((name, count))

    def compute_total(self):
        """The sum of all items, discounts included."""
        total = 0
        for name, count in self.items:
            total += price_of(name) * count
        return with_discount(total, self.customer)
'''
PRICES = '''"""Prices, in cents."""

TAX_RATE = 19
PRICES = {"apple": 50, "pear": 70, "plum": 30}


def price_of(name):
    return PRICES[name]


def with_discount(total, customer):
    if customer == "regular":
        return total - total // 100
    return total


def with_tax(total):
    return total + total * TAX_RATE // 100
'''
ORDERS = '''"""Orders: carts that were paid."""

from shop.prices import TAX_RATE, with_tax


def invoice(cart):
    total = cart.compute_total()
    return f"net {total}, tax {TAX_RATE} %, gross {with_tax(total)}"
'''
TESTS = '''import sys, unittest
sys.path.insert(0, "src")
from shop.cart import Cart
from shop.prices import with_discount


class CartTest(unittest.TestCase):
    def test_total(self):
        cart = Cart("new")
        cart.add("apple", 2)
        self.assertEqual(cart.compute_total(), 100)

    def test_discount(self):
        self.assertEqual(with_discount(1000, "regular"), 900)
'''
SERVER = '''import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from the shop")
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("compiling ...", flush=True)
print(f"listening on port {server.server_port}", flush=True)
server.serve_forever()
'''
ASK = '''name = input("Name of the shop? ")
if input(f"Write shop.name for {name}? [y/N] ") == "y":
    open("shop.name", "w").write(name)
    print("written")
'''
BUILD = '''import sys
for number in range(1, 120001):
    print(f"[{number:6}/120000] compiling module_{number:06}.c")
    if number == 70000:
        print("warning: module_070000.c:12: unused variable 'stock'")
print("build finished, 1 warning")
'''
TREE = "sleep 600 & sleep 600 & sh -c 'sleep 600 & wait' & wait\n"
LATIN1 = "Grüße aus Köln\nPreis: 5 £ für Müller\n"
UTF16 = "Название: магазин\nстатус: закрыт\n"
CRLF = "first=1\r\nsecond=2\r\nthird=3\r\n"


def make(folder):
    files = {
        ".gitignore": "node_modules/\nbuild/\n",
        "README.md": "# Shop\n\nRun the tests with `python3 -m unittest discover -s tests`.\n",
        "config/app.toml": 'name = "shop"\ncurrency = "EUR"\ntimeout = 30\n',
        "config/limits.json": json.dumps({"cart": {"items": 100}, "currency": "EUR"}, indent=2) + "\n",
        "src/shop/__init__.py": "",
        "src/shop/cart.py": CART,
        "src/shop/prices.py": PRICES,
        "src/shop/orders.py": ORDERS,
        "src/shop/mail.py": '"""Mail to customers."""\n\nCURRENCY = "EUR"\n\n\ndef subject(order):\n    return f"Your order in {CURRENCY}"\n',
        "src/shop/notify.py": 'from shop.mail import subject\n\n\ndef notify(order):\n    print(subject(order))\n',
        "tests/test_cart.py": TESTS,
        "scripts/server.py": SERVER,
        "scripts/ask.py": ASK,
        "scripts/build.py": BUILD,
        "scripts/tree.sh": TREE,
        "text/list.txt": "apple\npear\n",
        "notebooks/report.ipynb": notebook(),
    }
    for number in range(1, 21):
        files[f"src/shop/parts/part_{number:02}.py"] = part(number)
    for number in range(1, 151):
        files[f"node_modules/junk/file_{number:03}.js"] = "module.exports = compute_total;\n" * 20
    rows = (f"{number},user{number % 97},event {number},{number * 7 % 1000}\n" for number in range(1, 20001))
    files["data/events.csv"] = "".join(rows)
    files["logs/app.log"] = log()
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "text/latin1.txt").write_bytes(LATIN1.encode("latin-1"))
    (folder / "text/utf16.txt").write_bytes(b"\xff\xfe" + UTF16.encode("utf-16-le"))
    (folder / "text/crlf.ini").write_bytes(CRLF.encode())
    (folder / "assets").mkdir()
    (folder / "assets/logo.png").write_bytes(png(64, 48))
    (folder / "assets/blob.bin").write_bytes(b"SHOPDB\x00\x01" + random.Random(3).randbytes(4088))


def part(number):
    lines = [f'"""Part {number} of the shop."""', "", f"from shop.prices import price_of, TAX_RATE  # {number}", ""]
    for function in range(12):
        lines += ["", f"def part_{number:02}_{function:02}(count):", f"    value = price_of('apple') * count + {function}"]
        lines += ["    return legacy_round(value)" if function == number % 12 else "    return value", ""]
    return "\n".join(lines) + "\n"


def log():
    lines = []
    for number in range(1, 60001):
        lines.append(f"2026-11-16T10:{number // 1000 % 60:02}:{number % 60:02} INFO request {number} served in {number % 90} ms")
        if number in (12345, 34567, 56789):
            lines.append(f"2026-11-16T10:{number // 1000 % 60:02}:59 ERROR payment {number} failed: card declined")
    return "\n".join(lines) + "\n"


def notebook():
    image = base64.b64encode(random.Random(4).randbytes(30000)).decode()
    output = {"output_type": "display_data", "metadata": {}, "data": {"image/png": image}}
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Report\n", "Sales of the year"]},
        {"cell_type": "code", "metadata": {}, "execution_count": 1, "outputs": [output], "source": ["year = 2025\n", "plot(year)"]},
    ]
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


def png(width, height):
    rows = b"".join(b"\0" + bytes((row, 128, 64)) * width for row in range(height))
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    whole = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(whole)
