# Sessions of an application with Ruby's driver. What it does stands in run.
require 'cgi'
require 'mongo'
require 'uri'

def must(okay, what)
  abort "not so: #{what}" unless okay
end

Mongo::Logger.logger.level = Logger::WARN
# This driver's own parser of names and passwords in addresses needs URI.decode, which Ruby 3 has not.
uri = URI(ENV.fetch('MAYFLY_URI'))
user = uri.user ? { user: CGI.unescape(uri.user), password: CGI.unescape(uri.password), auth_source: 'admin' } : {}
client = Mongo::Client.new(["#{uri.host}:#{uri.port}"], database: 'e2e_ruby', **user)
sessions = client[:sessions]
now = Time.now
documents = (0..250).map do |i|
  at = if i < 200 then now - 3600 elsif i < 250 then now + 3600 else 'no date' end
  { _id: i, at: at }
end
must(sessions.insert_many(documents).inserted_count == 251, '251 documents are inserted')
must(sessions.find.batch_size(50).to_a.length == 251, 'find sees 251 documents')
sessions.update_one({ _id: 0 }, '$inc' => { seen: 1 })
must(sessions.find(seen: 1).first[:_id] == 0, 'the update is seen')
begin
  sessions.insert_one(_id: 0)
  abort 'a second _id 0 is taken'
rescue Mongo::Error::OperationFailure => e
  must(e.message.include?('11000'), "a second _id 0 is refused with 11000, not #{e.message}")
end

sessions.indexes.create_one({ at: 1 }, expire_after: 1)
must(sessions.indexes.get(at: 1)['expireAfterSeconds'] == 1, 'the index is a TTL index')
200.times do
  break if sessions.count <= 51

  sleep 0.1
end
left = sessions.find.sort(_id: 1).map { |doc| doc[:_id] }
must(left == (200..250).to_a, 'the 200 documents that are due leave, the 51 others stay')
client.close
