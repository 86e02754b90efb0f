"""Calls one server steadily, from a process of its own, and prints what came of it as JSON: SOCKET SERVER SECONDS DEADLINE"""

import asyncio
import json
import sys
import time

from wire import Calls, Client


async def main(socket, server, seconds, deadline):
    calls, until = Calls(), time.monotonic() + float(seconds)

    async def steadily(client, number):
        count = 0
        while time.monotonic() < until:
            count += 1
            error = await calls.call(client, server, f"probe {number}-{count}", float(deadline))
            if error:
                calls.wrong.append(f"{server}: {error}")
            await asyncio.sleep(0.005)

    clients = [await Client.connect(socket) for _ in range(2)]
    await asyncio.gather(*(steadily(client, number) for number, client in enumerate(clients)))
    print(json.dumps({"times": calls.times, "wrong": calls.wrong, "stray": sum(client.stray for client in clients)}))


asyncio.run(main(*sys.argv[1:]))
