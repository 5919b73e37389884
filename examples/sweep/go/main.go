// A service that writes a bill for each order, with franz-go.
//
// It ends when it has read all orders, and begins again after an error. With the argument -no-wait it
// has a fault: it does not wait until a bill is acknowledged, so it commits the offset of an order
// whose bill is refused. A program had this fault:
// https://github.com/argoproj-labs/old-argo-dataflow/issues/494
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	group     = "billing"
	maxStarts = 5
	limit     = 10 * time.Second
)

func main() {
	noWait := flag.Bool("no-wait", false, "do not wait until a bill is acknowledged")
	flag.Parse()
	for range maxStarts {
		err := billOrders(!*noWait)
		if err == nil {
			return
		}
		fmt.Println("the service starts again:", err)
	}
	fmt.Println("the service gives up")
	os.Exit(1)
}

func billOrders(waits bool) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(os.Getenv("KAFKA_BOOTSTRAP_SERVERS"), ",")...),
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics("orders"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.ProduceRequestTimeout(5*time.Second),
		// The client does not send a bill again by itself.
		kgo.DisableIdempotentWrite(),
		kgo.RecordRetries(0),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	for {
		isDone, err := hasReadAll(admin)
		if err != nil {
			return err
		}
		if isDone {
			return client.Flush(context.Background())
		}
		if err := billNext(client, waits); err != nil {
			return err
		}
	}
}

// Write the bill of the next order, and commit the order.
func billNext(client *kgo.Client, waits bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err(); err != nil {
		return err
	}
	if fetches.Empty() {
		return errors.New("no order has arrived")
	}
	order := fetches.Records()[0]
	bill := &kgo.Record{Topic: "bills", Value: []byte("bill of " + string(order.Value))}
	if waits {
		if err := client.ProduceSync(ctx, bill).FirstErr(); err != nil {
			return err
		}
	} else {
		client.Produce(context.Background(), bill, nil)
	}
	return client.CommitRecords(ctx, order)
}

func hasReadAll(admin *kadm.Client) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	ends, err := admin.ListEndOffsets(ctx, "orders")
	if err != nil {
		return false, err
	}
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return false, err
	}
	end, _ := ends.Lookup("orders", 0)
	if end.Err != nil {
		return false, end.Err
	}
	at, found := committed.Lookup("orders", 0)
	return found && at.Err == nil && at.At == end.Offset, at.Err
}
