// A driver of franz-go that connects with settings in JSON as Broker.client_config returns them.
// Each request writes one record and reads it in a group; see drivers/security_driver.py.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const securedTimeout = 20 * time.Second

type tlsSettings struct {
	CA   string `json:"ca_file"`
	Cert string `json:"cert_file"`
	Key  string `json:"key_file"`
}

type saslSettings struct {
	Mechanism string
	User      string
	Password  string
	Token     string
	IsToken   bool `json:"is_token"`
}

type securedSettings struct {
	SeedBrokers []string `json:"seed_brokers"`
	ClientID    string   `json:"client_id"`
	TLS         *tlsSettings
	SASL        *saslSettings
}

type exchange struct {
	Settings securedSettings
	Topic    string
	Group    string
	Value    string
}

func (s *tlsSettings) config() (*tls.Config, error) {
	authority, err := os.ReadFile(s.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if s.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(s.Cert, s.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

func (s *saslSettings) mechanism() (sasl.Mechanism, error) {
	switch s.Mechanism {
	case "PLAIN":
		return plain.Auth{User: s.User, Pass: s.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: s.User, Pass: s.Password, IsToken: s.IsToken}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: s.User, Pass: s.Password, IsToken: s.IsToken}.AsSha512Mechanism(), nil
	case "OAUTHBEARER":
		return oauth.Auth{Token: s.Token}.AsMechanism(), nil
	}
	return nil, errors.New("unknown mechanism " + s.Mechanism)
}

// Return a function that connects over TLS. Names below localhost are those of this machine (RFC
// 6761), also where the resolver does not know them.
func dialer(config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.ServerName = name
		if strings.HasSuffix(name, ".localhost") {
			address = net.JoinHostPort("127.0.0.1", port)
		}
		return (&tls.Dialer{Config: own}).DialContext(ctx, network, address)
	}
}

func (s *securedSettings) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(s.SeedBrokers...)}
	if s.ClientID != "" {
		options = append(options, kgo.ClientID(s.ClientID))
	}
	if s.TLS != nil {
		config, err := s.TLS.config()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.Dialer(dialer(config)))
	}
	if s.SASL != nil {
		mechanism, err := s.SASL.mechanism()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

// Write the value and return the value that the group reads.
func (e *exchange) perform() (string, error) {
	options, err := e.Settings.options()
	if err != nil {
		return "", err
	}
	client, err := kgo.NewClient(append(
		options,
		kgo.ConsumerGroup(e.Group),
		kgo.ConsumeTopics(e.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return "", err
	}
	defer client.Close()
	limit, cancel := context.WithTimeout(context.Background(), securedTimeout)
	defer cancel()
	if err := client.Ping(limit); err != nil {
		return "", err
	}
	record := &kgo.Record{Topic: e.Topic, Value: []byte(e.Value)}
	if err := client.ProduceSync(limit, record).FirstErr(); err != nil {
		return "", err
	}
	fetches := client.PollFetches(limit)
	if err := fetches.Err(); err != nil {
		return "", err
	}
	if err := client.CommitUncommittedOffsets(limit); err != nil {
		return "", err
	}
	return string(fetches.Records()[0].Value), nil
}

// Answer requests from standard input until it ends.
func secured() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked exchange
		value, err := "", json.Unmarshal(lines.Bytes(), &asked)
		if err == nil {
			value, err = asked.perform()
		}
		if err != nil {
			answers.Encode(map[string]any{"error": err.Error()})
		} else {
			answers.Encode(map[string]any{"ok": value})
		}
	}
}
