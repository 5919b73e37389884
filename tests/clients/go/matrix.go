// What franz-go does in each family of APIs; ../matrix_process.py describes the requests.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	matrixTimeout        = 15 * time.Second
	matrixRequestTimeout = 700 * time.Millisecond
	matrixRetryTime      = 10 * time.Millisecond
	matrixGroupTimeout   = time.Second
	matrixHeartbeat      = 100 * time.Millisecond
	matrixFetchTime      = 200 * time.Millisecond
)

type matrixCell struct {
	Client string
	Family string
	Topic  string
	Name   string
}

type matrixAnswer struct {
	Client  string `json:"client"`
	Outcome string `json:"outcome"`
}

var matrixFamilies = map[string]func(context.Context, matrixCell, []kgo.Opt) error{
	"metadata":     matrixMetadata,
	"produce":      matrixProduce,
	"fetch":        matrixFetch,
	"group":        matrixGroup,
	"offsets":      matrixOffsets,
	"transactions": matrixTransaction,
	"admin":        matrixAdmin,
}

// Start each cell from standard input at once; end with the last of them.
func runMatrix(bootstrap string) {
	answers := json.NewEncoder(os.Stdout)
	var lock sync.Mutex
	var running sync.WaitGroup
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var cell matrixCell
		must(json.Unmarshal(lines.Bytes(), &cell))
		running.Go(func() {
			outcome := matrixOutcome(bootstrap, cell)
			lock.Lock()
			defer lock.Unlock()
			must(answers.Encode(matrixAnswer{cell.Client, outcome}))
		})
	}
	running.Wait()
}

func matrixOutcome(bootstrap string, cell matrixCell) string {
	ctx, cancel := context.WithTimeout(context.Background(), matrixTimeout)
	defer cancel()
	err := matrixFamilies[cell.Family](ctx, cell, []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.ClientID(cell.Client),
		kgo.RequestTimeoutOverhead(matrixRequestTimeout),
		kgo.RetryBackoffFn(func(int) time.Duration { return matrixRetryTime }),
		kgo.MetadataMinAge(matrixRetryTime),
		kgo.ProduceRequestTimeout(matrixRequestTimeout),
		kgo.FetchMaxWait(matrixFetchTime),
		kgo.DisableClientMetrics(),
	})
	var known *kerr.Error
	var closed *kgo.ErrFirstReadEOF
	switch {
	case err == nil:
		return "recovered"
	case errors.As(err, &known):
		return known.Message
	case errors.As(err, &closed):
		return "ErrFirstReadEOF"
	}
	return err.Error()
}

func matrixMetadata(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	found, err := kadm.NewClient(client).Metadata(ctx, cell.Topic)
	if err == nil {
		err = found.Topics.Error()
	}
	return err
}

func matrixProduce(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	return client.ProduceSync(ctx, matrixRecord(cell)).FirstErr()
}

func matrixRecord(cell matrixCell) *kgo.Record {
	return &kgo.Record{Topic: cell.Topic, Value: []byte("v")}
}

func matrixFetch(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	start := map[int32]kgo.Offset{0: kgo.NewOffset().At(0)}
	client, err := kgo.NewClient(append(options,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{cell.Topic: start}))...)
	must(err)
	defer client.Close()
	return matrixPoll(ctx, client)
}

// Return the first error after which the client does not try again, or nil with a record. After an
// error of the connection in a group it does, too.
func matrixPoll(ctx context.Context, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			var session *kgo.ErrGroupSession
			if kerr.IsRetriable(failed.Err) {
				continue
			}
			var known *kerr.Error
			if errors.As(failed.Err, &session) && !errors.As(failed.Err, &known) {
				continue
			}
			return failed.Err
		}
		if fetches.NumRecords() > 0 {
			return nil
		}
	}
}

func matrixMember(cell matrixCell, options []kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options,
		kgo.ConsumerGroup(cell.Name),
		kgo.ConsumeTopics(cell.Topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(matrixGroupTimeout),
		kgo.RebalanceTimeout(matrixGroupTimeout),
		kgo.HeartbeatInterval(matrixHeartbeat),
	)...)
	must(err)
	return client
}

func matrixGroup(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	client := matrixMember(cell, options)
	defer client.Close()
	return matrixPoll(ctx, client)
}

func matrixOffsets(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	client := matrixMember(cell, options)
	defer client.Close()
	if err := matrixPoll(ctx, client); err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	return client.CommitUncommittedOffsets(ctx)
}

func matrixTransaction(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	client, err := kgo.NewClient(append(options, kgo.TransactionalID(cell.Name))...)
	must(err)
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	if err := client.ProduceSync(ctx, matrixRecord(cell)).FirstErr(); err != nil {
		return err
	}
	return client.EndTransaction(ctx, kgo.TryCommit)
}

func matrixAdmin(ctx context.Context, cell matrixCell, options []kgo.Opt) error {
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	admin := kadm.NewClient(client)
	admin.SetTimeoutMillis(int32(matrixRequestTimeout.Milliseconds()))
	_, err = admin.CreateTopic(ctx, 1, 1, nil, cell.Name)
	return err
}
