"""Keys of the broker about sockets, listeners, connections and threads."""

KEYS = """
advertised.listeners list null items+ high
    Addresses that clients connect to, if they differ from listeners.
background.threads int 10 1.. high cluster-wide
    Threads for background work.
client.quota.callback.class class null - low
    Class that selects the quota of a client.
connection.failed.authentication.delay.ms int 100 0.. low
    Delay before a connection that failed to authenticate is closed.
connections.max.idle.ms long 600000 - medium
    Time after which an idle connection is closed.
connections.max.reauth.ms long 0 - medium
    Time after which a SASL client has to authenticate again; 0 for never.
early.start.listeners list null items high
    Listeners that open before the authorizer is ready.
fetch.max.bytes int 57671680 1024.. medium
    Maximum size of the response to a fetch; one batch may be larger.
fetch.purgatory.purge.interval.requests int 1000 - medium
    Number of waiting fetches after which finished ones are purged.
inter.broker.listener.name string null - medium
    Listener for connections between brokers.
kafka.metrics.polling.interval.secs int 10 1.. low
    How often metrics reporters are polled, in seconds.
kafka.metrics.reporters list "" items low
    Classes that report the broker's own metrics.
listener.security.protocol.map string \
SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT - low per-broker
    Security protocol of each listener name.
listeners list PLAINTEXT://:9092 items+ high per-broker
    Addresses the broker binds, each as NAME://host:port.
max.connection.creation.rate int 2147483647 0.. medium cluster-wide
    Connections per second that a broker accepts.
max.connections int 2147483647 0.. medium cluster-wide
    Maximum number of connections of a broker.
max.connections.per.ip int 2147483647 0.. medium cluster-wide
    Maximum number of connections from one address.
max.connections.per.ip.overrides string "" - medium cluster-wide
    Addresses with a limit of their own, as host:count.
max.decompressed.message.bytes int 2147483639 1..2147483639 medium cluster-wide
    Maximum size of one record of a compressed batch when it is decompressed.
max.incremental.fetch.session.cache.slots int 1000 0.. medium
    Maximum number of fetch sessions of a broker.
max.request.partition.size.limit int 2000 1.. medium
    Maximum number of partitions in a response to DescribeTopicPartitions.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter items low cluster-wide
    Classes that report metrics.
metrics.num.samples int 2 1.. low
    Samples per metric.
metrics.recording.level string INFO - low
    Level of detail of metrics.
metrics.sample.window.ms long 30000 1.. low
    Length of one sample of a metric.
num.io.threads int 8 1.. high cluster-wide
    Threads that serve requests.
num.network.threads int 3 1.. high cluster-wide
    Threads that read and write sockets.
queued.max.request.bytes long -1 - medium
    Bytes of waiting requests above which no more are read; -1 for 1 GiB.
queued.max.requests int 500 1.. high
    Waiting requests above which no more are read.
quota.window.num int 11 1.. low
    Samples to measure clients against their quotas.
quota.window.size.seconds int 1 1.. low
    Length of one sample of a client's usage, in seconds.
request.timeout.ms int 30000 - high
    Timeout of the broker's own requests.
socket.connection.setup.timeout.max.ms long 30000 - medium
    Longest timeout of connection setup.
socket.connection.setup.timeout.ms long 10000 - medium
    Initial timeout of connection setup.
socket.listen.backlog.size int 50 1.. medium
    Connections that may wait to be accepted.
socket.receive.buffer.bytes int 102400 - high
    Receive buffer of client sockets; -1 for the system's default.
socket.request.max.bytes int 104857600 1.. high
    Largest request that is accepted.
socket.send.buffer.bytes int 102400 - high
    Send buffer of client sockets; -1 for the system's default.
telemetry.max.bytes int 1048576 1.. low
    Largest push of client metrics, before and after decompression.
"""
