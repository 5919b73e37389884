"""Keys of the broker about who speaks: TLS, SASL, principals, tokens."""

KEYS = """
authorizer.class.name string "" - low
config.providers list "" items low cluster-wide
delegation.token.expiry.check.interval.ms long 3600000 1.. low
delegation.token.expiry.time.ms long 86400000 1.. medium
delegation.token.max.lifetime.ms long 604800000 1.. medium
delegation.token.secret.key password null - medium
principal.builder.class class \
org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder - medium per-broker
sasl.client.callback.handler.class class null - medium
sasl.enabled.mechanisms list GSSAPI items medium per-broker
sasl.jaas.config password null - medium per-broker
sasl.kerberos.kinit.cmd string /usr/bin/kinit - medium per-broker
sasl.kerberos.min.time.before.relogin long 60000 - medium per-broker
sasl.kerberos.principal.to.local.rules list DEFAULT items medium per-broker
sasl.kerberos.service.name string null - medium per-broker
sasl.kerberos.ticket.renew.jitter double 0.05 - medium per-broker
sasl.kerberos.ticket.renew.window.factor double 0.8 - medium per-broker
sasl.login.callback.handler.class class null - medium
sasl.login.class class null - medium
sasl.login.connect.timeout.ms int null - low
sasl.login.read.timeout.ms int null - low
sasl.login.refresh.buffer.seconds short 300 - medium per-broker
sasl.login.refresh.min.period.seconds short 60 - medium per-broker
sasl.login.refresh.window.factor double 0.8 - medium per-broker
sasl.login.refresh.window.jitter double 0.05 - medium per-broker
sasl.login.retry.backoff.max.ms long 10000 - low
sasl.login.retry.backoff.ms long 100 - low
sasl.mechanism.controller.protocol string GSSAPI - high
sasl.mechanism.inter.broker.protocol string GSSAPI - medium per-broker
sasl.oauthbearer.assertion.algorithm string RS256 any-case(ES256|RS256) medium
sasl.oauthbearer.assertion.claim.aud string null - medium
sasl.oauthbearer.assertion.claim.exp.seconds int 300 0..86400 low
sasl.oauthbearer.assertion.claim.iss string null - medium
sasl.oauthbearer.assertion.claim.jti.include boolean false - medium
sasl.oauthbearer.assertion.claim.nbf.seconds int 60 0..3600 low
sasl.oauthbearer.assertion.claim.sub string null - medium
sasl.oauthbearer.assertion.file string null - medium
sasl.oauthbearer.assertion.private.key.file string null - medium
sasl.oauthbearer.assertion.private.key.passphrase password null - medium
sasl.oauthbearer.assertion.template.file string null - medium
sasl.oauthbearer.client.credentials.client.id string null - medium
sasl.oauthbearer.client.credentials.client.secret password null - medium
sasl.oauthbearer.clock.skew.seconds int 30 - low
sasl.oauthbearer.expected.audience list "" items high
sasl.oauthbearer.expected.issuer string null - high
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 - low
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 - low
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 - low
sasl.oauthbearer.jwks.endpoint.url string null - medium
sasl.oauthbearer.jwt.retriever.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever - medium
sasl.oauthbearer.jwt.validator.class class \
org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator - medium
sasl.oauthbearer.scope string null - medium
sasl.oauthbearer.scope.claim.name string scope - low
sasl.oauthbearer.sub.claim.name string sub - low
sasl.oauthbearer.token.endpoint.url string null - medium
sasl.server.callback.handler.class class null - medium
sasl.server.max.receive.size int 524288 - medium
security.inter.broker.protocol string PLAINTEXT one(PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL) medium
security.providers string null - low
ssl.allow.dn.changes boolean false - low
ssl.allow.san.changes boolean false - low
ssl.cipher.suites list "" items medium per-broker
ssl.client.auth string none one(required|requested|none) medium per-broker
ssl.enabled.protocols list TLSv1.2,TLSv1.3 items medium per-broker
ssl.endpoint.identification.algorithm string https - low per-broker
ssl.engine.factory.class class null - low per-broker
ssl.key.password password null - medium per-broker
ssl.keymanager.algorithm string SunX509 - medium per-broker
ssl.keystore.certificate.chain password null - medium per-broker
ssl.keystore.key password null - medium per-broker
ssl.keystore.location string null - medium per-broker
ssl.keystore.password password null - medium per-broker
ssl.keystore.type string JKS - medium per-broker
ssl.principal.mapping.rules string DEFAULT - low
ssl.protocol string TLSv1.3 - medium per-broker
ssl.provider string null - medium per-broker
ssl.secure.random.implementation string null - low per-broker
ssl.trustmanager.algorithm string PKIX - medium per-broker
ssl.truststore.certificates password null - medium per-broker
ssl.truststore.location string null - medium per-broker
ssl.truststore.password password null - medium per-broker
ssl.truststore.type string JKS - medium per-broker
"""
