-- Load script for wrk: tools/call echo in a finished 2025-11-25 handshake, every request with its own id.
-- SID is the Mcp-Session-Id of that handshake; without it the server is taken to keep no session.
-- Not a checker: the driver checks an answer before the run, and wrk's error counts after it.

local FIRST_ID = 1000000000

local headers = {
  ["Content-Type"] = "application/json",
  ["Accept"] = "application/json, text/event-stream",
  ["MCP-Protocol-Version"] = "2025-11-25",
}

if (os.getenv("SID") or "") ~= "" then
  headers["Mcp-Session-Id"] = os.getenv("SID")
end

local body = '{"jsonrpc":"2.0","id":' .. FIRST_ID .. ',"method":"tools/call","params":{"name":"echo",'
  .. '"arguments":{"text":"hello world"}}}'

-- Formatting a request anew costs wrk more than the servers need to answer it.
-- All ids have ten digits, so only the digits change, never Content-Length.
local before, after
local id = FIRST_ID

function init()
  local sample = wrk.format("POST", nil, headers, body)
  local from, to = sample:find(tostring(FIRST_ID), 1, true)
  before, after = sample:sub(1, from - 1), sample:sub(to + 1)
end

function request()
  id = id + 1
  return before .. id .. after
end

-- One line for the driver; the rest of wrk's output is for people.
function done(summary, latency)
  local e = summary.errors
  print(string.format(
    '\nRESULT {"requests":%d,"micros":%d,"bad_status":%d,"socket_errors":%d,"p50":%d,"p99":%d}',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
