// Package shop has tests of what a service meets in production.
package shop

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"shop/kafkalite"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRefusedCommitIsRetried(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	refusal := broker.AddFault(kafkalite.AddFault{
		Match:   kafkalite.Match{API: "OffsetCommit", Group: "shop"},
		Trigger: kafkalite.Trigger{Times: 1},
		Action:  kafkalite.Action{Error: "COORDINATOR_LOAD_IN_PROGRESS"},
	})
	commit(t, broker, 42)
	if state := broker.Fault(refusal); state.Firings != 1 || state.Matches != 2 {
		t.Error(state)
	}
	if offset := broker.Group("shop").Offsets[0].Offset; *offset != 42 {
		t.Error(*offset)
	}
}

func TestOffsetsOfAnEmptyGroupExpireAfterAWeek(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1", "--clock", "manual")
	commit(t, broker, 42)
	broker.Advance(7*24*time.Hour - time.Hour)
	if offset := broker.Group("shop").Offsets[0].Offset; *offset != 42 {
		t.Error(*offset)
	}
	broker.Advance(70 * time.Minute) // Kafka checks every ten minutes
	broker.WaitForGroup("shop", "Dead", 0)
}

func TestSecondProducerFencesTheFirst(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	zombie := newClient(t, broker, kgo.TransactionalID("shop"))
	check(t, zombie.BeginTransaction())
	publish(t, zombie, "two apples")
	other := newClient(t, broker, kgo.TransactionalID("shop"))
	_, _, err := other.ProducerID(t.Context())
	check(t, err)
	if err := zombie.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
		t.Error("the first producer has committed")
	}
	if !slices.Contains(kinds(broker.Explain("transactional_id", "shop")), "fenced") {
		t.Error("nothing was fenced")
	}
	if records := broker.Records("orders", 0); len(records) > 0 {
		t.Error(records)
	}
}

func TestPoisonRecordGoesToTheDeadLetters(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	broker.Produce("orders", "2", "two apples", "3")
	client := newConsumer(t, broker, kgo.AllowAutoTopicCreation())
	apples := 0
	orders := read(t, client, 3)
	for _, order := range orders {
		count, err := strconv.Atoi(string(order.Value))
		if err != nil {
			poison := &kgo.Record{Topic: "dead-letters", Value: order.Value}
			check(t, client.ProduceSync(t.Context(), poison).FirstErr())
		}
		apples += count
	}
	check(t, client.CommitRecords(t.Context(), orders...))
	if apples != 5 {
		t.Error(apples)
	}
	if letter := broker.Records("dead-letters", 1)[0]; letter.Value != "two apples" {
		t.Error(letter)
	}
	if lag := broker.Group("shop").Offsets[0].Lag; *lag != 0 {
		t.Error(*lag)
	}
}

func TestLagIsWhatTheGroupHasNotRead(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	broker.Produce("orders", "1", "2", "3", "4", "5")
	client := newConsumer(t, broker)
	check(t, client.CommitRecords(t.Context(), read(t, client, 5)[:2]...))
	if lag := broker.Group("shop").Offsets[0].Lag; *lag != 3 {
		t.Error(*lag)
	}
}

func TestGroupSurvivesAStormOfRebalances(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	broker.Produce("orders", "two apples")
	client := newConsumer(t, broker, kgo.HeartbeatInterval(50*time.Millisecond))
	check(t, client.CommitRecords(t.Context(), read(t, client, 1)...))
	storm := broker.AddFault(kafkalite.AddFault{
		Match:  kafkalite.Match{API: "Heartbeat", Group: "shop"},
		Action: kafkalite.Action{Error: "REBALANCE_IN_PROGRESS"},
	})
	for broker.Group("shop").Epoch < 4 {
		time.Sleep(10 * time.Millisecond) // the client joins again after each heartbeat
	}
	if state := broker.RemoveFault(storm); state.Firings < 3 {
		t.Error(state)
	}
	broker.Produce("orders", "a pear")
	if order := read(t, client, 1)[0]; string(order.Value) != "a pear" {
		t.Error(string(order.Value))
	}
	broker.WaitForGroup("shop", "Stable", 1)
	if !slices.Contains(kinds(broker.Explain("group", "shop")), "rebalance") {
		t.Error("no rebalance is explained")
	}
}

// throttles gets the times for which brokers throttle the client.
type throttles chan time.Duration

func (times throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, time time.Duration, _ bool) {
	times <- time
}

func TestProducerBeyondItsQuotaIsThrottled(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1", "--config", "quota.window.num=2")
	broker.SetQuota("reports", "producer_byte_rate", 10_000)
	times := make(throttles, 100)
	client := newClient(t, broker, kgo.ClientID("reports"), kgo.WithHooks(times),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	for range 3 {
		publish(t, client, string(make([]byte, 5_000)))
	}
	if time := <-times; time <= 0 {
		t.Error(time)
	}
	if !slices.Contains(kinds(broker.Explain("topic", "orders")), "throttled") {
		t.Error("no throttled request is explained")
	}
}

func TestRecordsAreCompressedAndAcknowledgedByAllReplicas(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	broker.LogRequests()
	client := newClient(t, broker, kgo.ProducerBatchCompression(kgo.GzipCompression()))
	publish(t, client, strings.Repeat("two apples, ", 100))
	broker.Expect(kafkalite.ExpectRequests{
		API:    "Produce",
		Topic:  "orders",
		Fields: map[string]any{"acks": -1, "compression": "gzip"},
		Times:  1,
	})
}

func TestTransactionSurvivesARestartOfTheBroker(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	client := newClient(t, broker, kgo.TransactionalID("shop"))
	check(t, client.BeginTransaction())
	publish(t, client, "two apples")
	broker.StopNode(1)
	broker.StartNode(1)
	if state := broker.Transactions()[0].State; state != "Ongoing" {
		t.Error(state)
	}
	publish(t, client, "a pear")
	check(t, client.EndTransaction(t.Context(), kgo.TryCommit))
	records := broker.Records("orders", 2)
	if records[0].Value != "two apples" || records[1].Value != "a pear" {
		t.Error(records)
	}
}

func TestOrderIsPublished(t *testing.T) {
	broker := kafkalite.Start(t, "--topic", "orders:1")
	record := &kgo.Record{Topic: "orders", Key: []byte("customer-7"), Value: []byte("two apples")}
	check(t, newClient(t, broker).ProduceSync(t.Context(), record).FirstErr())
	if order := broker.Records("orders", 1)[0]; order.Key != "customer-7" || order.Value != "two apples" {
		t.Error(order)
	}
}

func newClient(t *testing.T, broker *kafkalite.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(broker.BootstrapServers...))
	client, err := kgo.NewClient(options...)
	check(t, err)
	t.Cleanup(client.Close)
	return client
}

func newConsumer(t *testing.T, broker *kafkalite.Broker, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.ConsumerGroup("shop"), kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	return newClient(t, broker, options...)
}

func commit(t *testing.T, broker *kafkalite.Broker, offset int64) {
	t.Helper()
	offsets := kadm.Offsets{}
	offsets.AddOffset("orders", 0, offset, -1)
	check(t, kadm.NewClient(newClient(t, broker)).CommitAllOffsets(t.Context(), "shop", offsets))
}

func publish(t *testing.T, client *kgo.Client, value string) {
	t.Helper()
	record := &kgo.Record{Topic: "orders", Value: []byte(value)}
	check(t, client.ProduceSync(t.Context(), record).FirstErr())
}

func read(t *testing.T, client *kgo.Client, count int) []*kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var records []*kgo.Record
	for len(records) < count {
		fetches := client.PollFetches(ctx)
		check(t, fetches.Err())
		records = append(records, fetches.Records()...)
	}
	return records
}

func kinds(entries []kafkalite.HistoryEntry) []string {
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Kind)
	}
	return found
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
