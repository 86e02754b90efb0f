"""What the drivers in Python share: the plan, and the log that the recorder writes into, too."""

import json
import sys

from plan import strict


class Plan:
    """`plan.json`: the server, the log, and the calls to make."""

    def __init__(self):
        with open(sys.argv[2]) as file:
            plan = json.load(file)
        self.server, self.log, self.calls = plan["server"], plan["log"], plan["calls"]
        self.framework = sys.argv[1]

    def write(self, **entry):
        with open(self.log, "a") as out:
            out.write(json.dumps(entry) + "\n")

    def convert(self, by, name, convert):
        """Tries what a framework does to a schema before it goes to a provider."""
        try:
            convert()
            self.write(converted=name, by=by, wrong=None)
        except Exception as error:
            self.write(converted=name, by=by, wrong=f"{type(error).__name__}: {error}")

    async def run(self, call, schemas=None):
        """Makes all calls: `call(tool, arguments)`. With `schemas`, as a strict API has them, as a model there would."""
        for planned in self.calls:
            mode, arguments = planned["mode"], planned["arguments"]
            if schemas is not None:
                if mode != "absent":
                    continue
                mode, arguments = "strict", strict(schemas[planned["tool"]], arguments)
            self.write(begin=planned["tool"], mode=mode, arguments=arguments)
            try:
                await call(planned["tool"], arguments)
                self.write(end=planned["tool"], raised=None)
            except Exception as error:
                self.write(end=planned["tool"], raised=f"{type(error).__name__}: {error}")
