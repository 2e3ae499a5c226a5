# Sidekiq as a peer of `cargo xtask bench jobs`: the job, and the count of what was run.
# Loaded by enqueue.rb, and by `sidekiq -r` to drain. What is printed is said in bench/src/redis/peer.rs.
require "json"
require "sidekiq"

# The packaged client warns of a call that this Sidekiq makes for each job: a line each, and a third of the time.
Redis.silence_deprecations = true
# As its own load test does: no line for each job.
Sidekiq.logger.level = Logger::ERROR

module Tally
  LOCK = Mutex.new
  @wanted = Integer(ENV.fetch("COUNT"))
  @count = @sum = 0

  class << self
    def begin
      @since ||= [now(Process::CLOCK_MONOTONIC), now(Process::CLOCK_PROCESS_CPUTIME_ID)]
    end

    def add(number)
      LOCK.synchronize do
        self.begin
        @count += 1
        @sum += number
        say(@count, @sum) if @count == @wanted
      end
    end

    def say(count, sum)
      wall, cpu = @since
      result = { count: count, sum: sum, seconds: now(Process::CLOCK_MONOTONIC) - wall,
                 cpu_seconds: now(Process::CLOCK_PROCESS_CPUTIME_ID) - cpu }
      $stdout.puts(JSON.generate(result))
      $stdout.flush
    end

    def now(clock) = Process.clock_gettime(clock)
  end
end

class Noop
  include Sidekiq::Worker

  def perform(number, _filling)
    Tally.add(number)
  end
end
