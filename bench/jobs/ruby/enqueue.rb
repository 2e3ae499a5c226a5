# Enqueues COUNT jobs in bulk, a thousand in a call, as Sidekiq's documentation advises.
require_relative "jobs"

count = Integer(ENV.fetch("COUNT"))
filling = "x" * 180
Tally.begin
(0...count).each_slice(1_000) do |numbers|
  Sidekiq::Client.push_bulk("class" => "Noop", "args" => numbers.map { |number| [number, filling] })
end
Tally.say(count, count * (count - 1) / 2)
