"""Keys of the broker about sockets, listeners, connections and threads."""

KEYS = """
advertised.listeners list null items+ high
    Addresses that clients are told to connect to, where those differ from listeners.
background.threads int 10 1.. high cluster-wide
    Threads for work that nobody waits for.
client.quota.callback.class class null - low
    Class that decides which quota applies to a client.
connection.failed.authentication.delay.ms int 100 0.. low
    Wait before a connection that failed to authenticate is closed.
connections.max.idle.ms long 600000 - medium
    Time after which a connection nobody uses is closed.
connections.max.reauth.ms long 0 - medium
    Time after which a SASL client has to authenticate again; 0 for never.
early.start.listeners list null items high
    Listeners that open before the authorizer is ready.
fetch.max.bytes int 57671680 1024.. medium
    Most bytes any fetch is answered with, one batch excepted.
fetch.purgatory.purge.interval.requests int 1000 - medium
    Waiting fetches after which finished ones are cleared away.
inter.broker.listener.name string null - medium
    Listener that brokers use among themselves.
kafka.metrics.polling.interval.secs int 10 1.. low
    How often metrics reporters are polled, in seconds.
kafka.metrics.reporters list "" items low
    Classes that report the broker's own metrics.
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - low per-broker
    Which security protocol each listener name speaks.
listeners list PLAINTEXT://:9092 items+ high per-broker
    Addresses the broker binds, each as NAME://host:port.
max.connection.creation.rate int 2147483647 0.. medium cluster-wide
    Connections per second that a broker accepts.
max.connections int 2147483647 0.. medium cluster-wide
    Connections that a broker holds at once.
max.connections.per.ip int 2147483647 0.. medium cluster-wide
    Connections that a broker holds from one address.
max.connections.per.ip.overrides string "" - medium cluster-wide
    Addresses with a limit of their own, as host:count.
max.incremental.fetch.session.cache.slots int 1000 0.. medium
    Fetch sessions that a broker keeps.
max.request.partition.size.limit int 2000 1.. medium
    Partitions that one page of a described topic list has at most.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter items low cluster-wide
    Classes that are told of every metric.
metrics.num.samples int 2 1.. low
    Samples kept for each metric.
metrics.recording.level string INFO - low
    How detailed metrics are.
metrics.sample.window.ms long 30000 1.. low
    Length of one sample of a metric.
num.io.threads int 8 1.. high cluster-wide
    Threads that serve requests.
num.network.threads int 3 1.. high cluster-wide
    Threads that read and write sockets.
queued.max.request.bytes long -1 - medium
    Bytes of requests that may wait before no more are read; -1 for no bound.
queued.max.requests int 500 1.. high
    Requests that may wait before no more are read.
quota.window.num int 11 1.. low
    Samples kept to measure clients against their quotas.
quota.window.size.seconds int 1 1.. low
    Length of one such sample, in seconds.
request.timeout.ms int 30000 - high
    Time the broker waits for an answer to requests of its own.
socket.connection.setup.timeout.max.ms long 30000 - medium
    Longest time that setting up a connection may take.
socket.connection.setup.timeout.ms long 10000 - medium
    Time that setting up a connection may take at first.
socket.listen.backlog.size int 50 1.. medium
    Connections that may wait to be accepted.
socket.receive.buffer.bytes int 102400 - high
    Receive buffer of client sockets; -1 leaves it to the system.
socket.request.max.bytes int 104857600 1.. high
    Largest request that is read.
socket.send.buffer.bytes int 102400 - high
    Send buffer of client sockets; -1 leaves it to the system.
telemetry.max.bytes int 1048576 1.. low
    Largest push of client metrics, after compression.
"""
