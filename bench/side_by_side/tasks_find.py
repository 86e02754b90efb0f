"""Tasks that find and read, and change nothing."""

from .task import Task, expect

SOURCES = ("cart", "prices", "orders", "mail")
FIVE = ("src/shop/cart.py", "src/shop/prices.py", "src/shop/orders.py", "tests/test_cart.py", "config/app.toml")


class FindFunction(Task):
    """Find the function compute_total and read it"""

    shows = ("cart.py", "return with_discount(total, self.customer)")

    def lmcp(self, s):
        s.call("search_files", pattern="def compute_total", after=8)

    def commander(self, s):
        # Its own search shows the first results only, each line with its path.
        line = "grep -rn -A8 --exclude-dir=node_modules 'def compute_total' ."
        s.call("start_process", command=line, timeout_ms=5000)

    def filesystem(self, s):
        s.call("search_files", path=s.path(), pattern="**/*.py", excludePatterns=["node_modules"])
        s.call("read_multiple_files", paths=[s.path(f"src/shop/{name}.py") for name in SOURCES])


class FindByName(Task):
    """Find the files of configuration: toml, json, ini"""

    shows = ("config/app.toml", "config/limits.json", "text/crlf.ini")

    def lmcp(self, s):
        s.call("search_files", pattern="*.{toml,json,ini}", mode="names")

    def commander(self, s):
        # Its own search takes one pattern of names.
        line = r"find . -name node_modules -prune -o \( -name '*.toml' -o -name '*.json' -o -name '*.ini' \) -print"
        s.call("start_process", command=line, timeout_ms=5000)

    def filesystem(self, s):
        s.call("search_files", path=s.path(), pattern="**/*.{toml,json,ini}", excludePatterns=["node_modules"])


class ReadMiddle(Task):
    """Read lines 15,000 to 15,040 of a file of 20,000"""

    shows = ("event 15000,", "event 15040,")

    def lmcp(self, s):
        s.call("read_file", path="data/events.csv", offset=15000, limit=41)

    def commander(self, s):
        s.call("read_file", path=s.path("data/events.csv"), offset=14999, length=41)

    def filesystem(self, s):
        # It reads from the beginning or from the end, which is nearer here.
        s.call("read_text_file", path=s.path("data/events.csv"), tail=5002)


class LogTail(Task):
    """Read the last 20 lines of a log"""

    shows = ("request 60000 served", "request 59985 served")

    def lmcp(self, s):
        s.call("read_file", path="logs/app.log", offset=-20)

    def commander(self, s):
        s.call("read_file", path=s.path("logs/app.log"), offset=-20)

    def filesystem(self, s):
        s.call("read_text_file", path=s.path("logs/app.log"), tail=20)


class ReadFive(Task):
    """Read five files"""

    shows = ("class Cart:", "def with_tax", "def invoice", "class CartTest", "timeout = 30")

    def lmcp(self, s):
        s.call("read_file", paths=list(FIVE))

    def commander(self, s):
        s.call("read_multiple_files", paths=[s.path(name) for name in FIVE])

    filesystem = commander


class Tree(Task):
    """Get an overview of the project"""

    shows = ("part_20.py", "test_cart.py", "report.ipynb")

    def lmcp(self, s):
        s.call("list_dir", depth=4)

    def commander(self, s):
        s.call("list_directory", path=s.path(), depth=4)

    def filesystem(self, s):
        s.call("directory_tree", path=s.path(), excludePatterns=["node_modules"])


class CountUses(Task):
    """Count the uses of price_of in each file"""

    shows = ("part_20.py", "cart.py")

    def lmcp(self, s):
        s.call("search_files", pattern="price_of(", literal=True, mode="count", path="src")

    def commander(self, s):
        s.call("start_process", command="grep -rFc 'price_of(' src | grep -v ':0$'", timeout_ms=5000)

    def filesystem(self, s):
        # Without a search in contents, the model has to read and count.
        listed = s.call("search_files", path=s.path("src"), pattern="**/*.py")
        s.call("read_multiple_files", paths=listed.text.split())


class LogErrors(Task):
    """Find the errors in a log of 3 MB, each with the line before and after"""

    shows = ("payment 12345 failed", "payment 34567 failed", "payment 56789 failed", "request 56790")

    def lmcp(self, s):
        s.call("search_files", pattern=" ERROR ", path="logs/app.log", context=1)

    def commander(self, s):
        s.call("start_process", command="grep -n -C1 ' ERROR ' logs/app.log", timeout_ms=5000)


class FileFacts(Task):
    """Tell the size and the number of lines of a file"""

    shows = ("553519", "2000")

    def lmcp(self, s):
        s.call("shell", command="wc -lc data/events.csv")

    def commander(self, s):
        s.call("start_process", command="wc -lc data/events.csv", timeout_ms=5000)

    def filesystem(self, s):
        # The number of lines is in no answer, but the last line of this file begins with it.
        s.call("get_file_info", path=s.path("data/events.csv"))
        s.call("read_text_file", path=s.path("data/events.csv"), tail=2)


class Image(Task):
    """Look at a picture"""

    def lmcp(self, s):
        s.call("read_file", path="assets/logo.png")

    def commander(self, s):
        s.call("read_file", path=s.path("assets/logo.png"))

    def filesystem(self, s):
        s.call("read_media_file", path=s.path("assets/logo.png"))

    def check(self, session):
        expect(sum(answer.images for answer in session.answers) == 1, "there is no image")


class Binary(Task):
    """See the first bytes of a file of an unknown format"""

    def lmcp(self, s):
        s.call("read_file", path="assets/blob.bin", form="hex", byte_limit=32)

    def commander(self, s):
        s.call("start_process", command="od -A d -t x1z -N 32 assets/blob.bin", timeout_ms=5000)

    def filesystem(self, s):
        s.call("read_media_file", path=s.path("assets/blob.bin"))

    def check(self, session):
        expect("53 48 4f 50" in session.seen or "U0hPUERC" in session.seen, "the bytes are missing")


TASKS = (FindFunction, FindByName, ReadMiddle, LogTail, ReadFive, Tree, CountUses, LogErrors, FileFacts, Image, Binary)
