-- Load script for wrk: handshakes that nobody ever ends.

function init()
  local client = '{"name":"bench","version":"1"}'
  local params = '{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"elicitation":{}},"clientInfo":' .. client .. '}'
  local headers = {
    ["Content-Type"] = "application/json",
    ["Accept"] = "application/json, text/event-stream",
  }
  local body = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":' .. params .. '}'
  handshake = wrk.format("POST", nil, headers, body)
end

function request()
  return handshake
end

-- One line for the driver; the rest of wrk's output is for people.
function done(summary, latency)
  local e = summary.errors
  print(string.format('\nRESULT {"requests":%d,"micros":%d,"bad_status":%d,"socket_errors":%d,"p50":%d}',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write + e.timeout, latency:percentile(50)))
end
