// A program of franz-go that connects by TLS, with settings in JSON as Broker.client_config returns them.
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
)

const securedTimeout = 20 * time.Second

type securedSettings struct {
	SeedBrokers []string `json:"seed_brokers"`
	TLS         struct {
		CA   string `json:"ca_file"`
		Cert string `json:"cert_file"`
		Key  string `json:"key_file"`
	} `json:"tls"`
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
	config, err := settings.tlsConfig()
	if err != nil {
		return err
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(settings.SeedBrokers...),
		kgo.DialTLSConfig(config),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
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
