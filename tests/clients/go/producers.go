// Transactional producers of franz-go; drivers/producers.py describes the requests.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type producerCall struct {
	Op               string
	Name             string
	TransactionalID  string `json:"transactional_id"`
	TimeoutMs        int    `json:"timeout_ms"`
	RequestTimeoutMs int    `json:"request_timeout_ms"`
	Topic            string
	Value            string
}

// Answer requests from standard input until it ends.
func produceInTransactions(bootstrap string) {
	producers := map[string]*kgo.Client{}
	lines := bufio.NewScanner(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var call producerCall
		err := json.Unmarshal(lines.Bytes(), &call)
		if err == nil && call.Op == "init" {
			producers[call.Name], err = newProducer(bootstrap, call)
		} else if err == nil {
			err = perform(producers[call.Name], call)
		}
		if err != nil {
			answers.Encode(map[string]any{"error": err.Error()})
		} else {
			answers.Encode(map[string]any{"ok": nil})
		}
	}
}

func newProducer(bootstrap string, call producerCall) (*kgo.Client, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.TransactionalID(call.TransactionalID),
		kgo.TransactionTimeout(time.Duration(call.TimeoutMs)*time.Millisecond),
		kgo.RequestTimeoutOverhead(time.Duration(call.RequestTimeoutMs)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelWarn, nil)),
	)
	if err != nil {
		return nil, err
	}
	_, _, err = client.ProducerID(context.Background())
	return client, err
}

func perform(client *kgo.Client, call producerCall) error {
	ctx, cancel := context.WithTimeout(context.Background(), driverTimeout)
	defer cancel()
	switch call.Op {
	case "begin":
		return client.BeginTransaction()
	case "send":
		record := &kgo.Record{Topic: call.Topic, Value: []byte(call.Value)}
		return client.ProduceSync(ctx, record).FirstErr()
	case "commit":
		return client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		return client.EndTransaction(ctx, kgo.TryAbort)
	}
	return fmt.Errorf("unknown operation %s", call.Op)
}
