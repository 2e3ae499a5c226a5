# Sidekiq's own page, on the server that Ruby's packages bring.
# ARGV: the port. REDIS_URL says where the jobs are.
require "securerandom"
require "rack"
require "rack/handler/webrick"
require "sidekiq"
require "sidekiq/web"

# The packaged client warns of calls that the packaged Sidekiq makes.
Redis.silence_deprecations = true
Sidekiq.configure_client { |config| config.redis = { url: ENV.fetch("REDIS_URL") } }
page = Rack::Builder.new do
  use Rack::Session::Cookie, secret: SecureRandom.hex(32), same_site: true
  run Sidekiq::Web
end
Rack::Handler::WEBrick.run(page.to_app, Host: "127.0.0.1", Port: Integer(ARGV.fetch(0)))
