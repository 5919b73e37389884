// A program of franz-go that connects by TLS or SASL, with settings in JSON as Broker.client_config returns them.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const securedTimeout = 20 * time.Second

type securedSettings struct {
	SeedBrokers []string `json:"seed_brokers"`
	TLS         struct {
		CA   string `json:"ca_file"`
		Cert string `json:"cert_file"`
		Key  string `json:"key_file"`
	} `json:"tls"`
	SASL struct {
		User      string `json:"user"`
		Password  string `json:"password"`
		Mechanism string `json:"mechanism"`
		IsToken   bool   `json:"is_token"`
	} `json:"sasl"`
}

// Options for the parts of the settings that are given; of SASL, the two SCRAM mechanisms.
func (s *securedSettings) options() ([]kgo.Opt, error) {
	options := []kgo.Opt{kgo.SeedBrokers(s.SeedBrokers...)}
	if s.TLS.CA != "" {
		config, err := s.tlsConfig()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(config))
	}
	if s.SASL.User != "" {
		auth := scram.Auth{User: s.SASL.User, Pass: s.SASL.Password, IsToken: s.SASL.IsToken}
		if s.SASL.Mechanism == "SCRAM-SHA-256" {
			options = append(options, kgo.SASL(auth.AsSha256Mechanism()))
		} else {
			options = append(options, kgo.SASL(auth.AsSha512Mechanism()))
		}
	}
	return options, nil
}

func (s *securedSettings) tlsConfig() (*tls.Config, error) {
	authority, err := os.ReadFile(s.TLS.CA)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(authority)
	if s.TLS.Cert != "" {
		certificate, err := tls.LoadX509KeyPair(s.TLS.Cert, s.TLS.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	return config, nil
}

// Produce one record to the topic, read it, and print its value.
func secured(text string, topic string, value string) error {
	var settings securedSettings
	if err := json.Unmarshal([]byte(text), &settings); err != nil {
		return err
	}
	options, err := settings.options()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(append(options,
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)...)
	if err != nil {
		return err
	}
	defer client.Close()
	limit, cancel := context.WithTimeout(context.Background(), securedTimeout)
	defer cancel()
	if err := client.Ping(limit); err != nil {
		return err
	}
	record := &kgo.Record{Topic: topic, Value: []byte(value)}
	if err := client.ProduceSync(limit, record).FirstErr(); err != nil {
		return err
	}
	fetches := client.PollFetches(limit)
	if err := fetches.Err(); err != nil {
		return err
	}
	for _, record := range fetches.Records() {
		fmt.Println(string(record.Value))
	}
	return nil
}
