"""Keys of the broker about sockets, listeners, connections and threads."""

KEYS = """
advertised.listeners list null items+ high
background.threads int 10 1.. high cluster-wide
client.quota.callback.class class null - low
connection.failed.authentication.delay.ms int 100 0.. low
connections.max.idle.ms long 600000 - medium
connections.max.reauth.ms long 0 - medium
early.start.listeners list null items high
fetch.max.bytes int 57671680 1024.. medium
fetch.purgatory.purge.interval.requests int 1000 - medium
inter.broker.listener.name string null - medium
kafka.metrics.polling.interval.secs int 10 1.. low
kafka.metrics.reporters list "" items low
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - low per-broker
listeners list PLAINTEXT://:9092 items+ high per-broker
max.connection.creation.rate int 2147483647 0.. medium cluster-wide
max.connections int 2147483647 0.. medium cluster-wide
max.connections.per.ip int 2147483647 0.. medium cluster-wide
max.connections.per.ip.overrides string "" - medium cluster-wide
max.incremental.fetch.session.cache.slots int 1000 0.. medium
max.request.partition.size.limit int 2000 1.. medium
metric.reporters list org.apache.kafka.common.metrics.JmxReporter items low cluster-wide
metrics.num.samples int 2 1.. low
metrics.recording.level string INFO - low
metrics.sample.window.ms long 30000 1.. low
num.io.threads int 8 1.. high cluster-wide
num.network.threads int 3 1.. high cluster-wide
queued.max.request.bytes long -1 - medium
queued.max.requests int 500 1.. high
quota.window.num int 11 1.. low
quota.window.size.seconds int 1 1.. low
request.timeout.ms int 30000 - high
socket.connection.setup.timeout.max.ms long 30000 - medium
socket.connection.setup.timeout.ms long 10000 - medium
socket.listen.backlog.size int 50 1.. medium
socket.receive.buffer.bytes int 102400 - high
socket.request.max.bytes int 104857600 1.. high
socket.send.buffer.bytes int 102400 - high
telemetry.max.bytes int 1048576 1.. low
"""
