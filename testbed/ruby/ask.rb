# Runs a snippet with Sidekiq's API at hand and writes its value as JSON.
# ARGV: the file with the snippet, the file for the value. REDIS_URL says where.
require "json"
require "sidekiq"
require "sidekiq/api"

# The packaged client warns of calls that the packaged Sidekiq makes.
Redis.silence_deprecations = true
Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }
value = TOPLEVEL_BINDING.eval(File.read(ARGV.fetch(0)), ARGV.fetch(0))
File.write(ARGV.fetch(1), JSON.generate(value))
