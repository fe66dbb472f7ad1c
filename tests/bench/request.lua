-- SPDX-License-Identifier: MIT
-- Sends the octets of the file BENCH_REQUEST as they are, BENCH_DEPTH times in one write, and ends
-- with one line of JSON.  wrk asks wrk.format() once: no Lua runs per request.
local file = assert(io.open(os.getenv("BENCH_REQUEST"), "rb"))
local request = file:read("*a"):rep(tonumber(os.getenv("BENCH_DEPTH")))
local connections = tonumber(os.getenv("BENCH_CONNECTIONS"))
file:close()

function wrk.format()
	return request
end

-- wrk adds samples that it thinks omitted: for each latency of at least twice the mean interval of
-- a connection, one per interval below it.  They were never seen, and with pipelining the interval
-- is not one of writes.  A sample's additions lie below it, so they come off from the top down.
local function seen(latency, interval)
	local values, counts = {}, {}
	for i = 1, #latency do
		local value, count = latency(i)
		values[i], counts[value] = value, count
	end
	for i = #values, 1, -1 do
		local value = values[i]
		if value >= 2 * interval then
			for below = value - interval, interval + 1, -interval do
				counts[below] = counts[below] and counts[below] - counts[value]
			end
		end
	end
	return values, counts
end

local function percentile(values, counts, total, percent)
	local left = total * percent / 100
	for _, value in ipairs(values) do
		left = left - counts[value]
		if left <= 0 then
			return value
		end
	end
	return values[#values] or 0
end

function done(summary, latency)
	local rounds = math.floor(summary.requests / connections)
	local interval = rounds > 0 and math.floor(summary.duration / rounds) or math.huge
	local values, counts = seen(latency, interval)
	local total, errors = 0, summary.errors
	for _, count in pairs(counts) do
		total = total + count
	end
	local function at(percent)
		return percentile(values, counts, total, percent)
	end
	io.write(string.format('{"requests": %d, "us": %d, "samples": %d, "p50": %d, "p99": %d, '
		.. '"p999": %d, "connect": %d, "read": %d, "write": %d, "timeout": %d, "status": %d}\n',
		summary.requests, summary.duration, total, at(50), at(99), at(99.9),
		errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
