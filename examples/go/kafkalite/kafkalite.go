// Package kafkalite starts a Kafka broker for a test, and controls it. Copy this file.
package kafkalite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Routes of the control API: the methods and paths that this client uses.
var (
	changeClock     = Route{"POST", "/v1/clock"}
	addFault        = Route{"POST", "/v1/faults"}
	listFaults      = Route{"GET", "/v1/faults"}
	removeFault     = Route{"DELETE", "/v1/faults/{fault_id}"}
	readRecords     = Route{"GET", "/v1/topics/{topic}/records"}
	produceRecords  = Route{"POST", "/v1/topics/{topic}/records"}
	showGroup       = Route{"GET", "/v1/groups/{group}"}
	listTransaction = Route{"GET", "/v1/transactions"}
	changeNode      = Route{"POST", "/v1/nodes/{node_id}"}
	setQuotas       = Route{"POST", "/v1/quotas"}
	explain         = Route{"GET", "/v1/explain"}
	listRequests    = Route{"GET", "/v1/requests"}
	expectRequests  = Route{"POST", "/v1/requests/expect"}

	Routes = []Route{
		changeClock, addFault, listFaults, removeFault, readRecords, produceRecords, showGroup,
		listTransaction, changeNode, setQuotas, explain, listRequests, expectRequests,
	}
)

// Route is a method and a path, whose variable is in braces.
type Route struct{ Method, Path string }

// Match selects requests; fields that are not set match all.
type Match struct {
	API   string `json:"api,omitempty"`
	Group string `json:"group,omitempty"`
	Topic string `json:"topic,omitempty"`
}

// Trigger says for which of the selected requests a fault fires; without it, for all.
type Trigger struct {
	Times int `json:"times,omitempty"`
}

// Action is the effect of a fault.
type Action struct {
	Error      string `json:"error,omitempty"`
	DelayMs    int    `json:"delay_ms,omitempty"`
	Disconnect string `json:"disconnect,omitempty"`
}

// AddFault is a fault to add.
type AddFault struct {
	Match   Match   `json:"match"`
	Trigger Trigger `json:"trigger"`
	Action  Action  `json:"action"`
}

// FaultState has the numbers of requests that a fault selected, and for which it fired.
type FaultState struct {
	ID      string `json:"id"`
	Matches int    `json:"matches"`
	Firings int    `json:"firings"`
}

// RecordAnswer is a record of a topic; key and value are empty if they are not UTF-8.
type RecordAnswer struct {
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Key       string `json:"key"`
	Value     string `json:"value"`
}

// GroupStatus is a group with its members, committed offsets and lag.
type GroupStatus struct {
	State   string        `json:"state"`
	Epoch   int           `json:"epoch"`
	Members []GroupMember `json:"members"`
	Offsets []GroupOffset `json:"offsets"`
}

// GroupMember is a member of a group.
type GroupMember struct {
	MemberID string `json:"member_id"`
	ClientID string `json:"client_id"`
}

// GroupOffset is the committed offset of a partition, and the lag; nil if it is not known.
type GroupOffset struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    *int64 `json:"offset"`
	Lag       *int64 `json:"lag"`
}

// TransactionAnswer is a transactional id with the state of its transaction.
type TransactionAnswer struct {
	TransactionalID string `json:"transactional_id"`
	State           string `json:"state"`
}

// HistoryEntry is an event and its reason.
type HistoryEntry struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

// ExpectRequests says which requests must have arrived, and how often.
type ExpectRequests struct {
	API      string         `json:"api,omitempty"`
	Topic    string         `json:"topic,omitempty"`
	Group    string         `json:"group,omitempty"`
	Fields   map[string]any `json:"fields,omitempty"`
	Times    int            `json:"times,omitempty"`
	WithinMs int            `json:"within_ms,omitempty"`
}

// Broker is a running broker.
type Broker struct {
	BootstrapServers []string
	ControlURL       string

	t testing.TB
}

// Start starts a broker with options of `kafkalite serve`; it stops at the end of the test. The
// command is that of the variable KAFKALITE_COMMAND, by default kafkalite.
func Start(t testing.TB, options ...string) *Broker {
	t.Helper()
	words := strings.Fields(os.Getenv("KAFKALITE_COMMAND"))
	if len(words) == 0 {
		words = []string{"kafkalite"}
	}
	words = append(words, "serve", "--listen", "localhost:0", "--control", "127.0.0.1:0", "--log-level", "warning")
	command := exec.Command(words[0], append(words[1:], options...)...)
	output, err := command.StdoutPipe()
	command.Stderr = os.Stderr
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatalf("%v: install kafkalite, or set KAFKALITE_COMMAND", err)
	}
	broker := &Broker{t: t}
	t.Cleanup(func() {
		if t.Failed() && broker.ControlURL != "" {
			for _, entry := range broker.Explain("limit", "100") {
				t.Log(entry.Kind, entry.Text)
			}
		}
		command.Process.Signal(os.Interrupt)
		command.Wait()
	})
	lines := bufio.NewScanner(output)
	for broker.ControlURL == "" && lines.Scan() {
		if servers, found := strings.CutPrefix(lines.Text(), "kafkalite is ready at "); found {
			broker.BootstrapServers = strings.Split(servers, ",")
		} else if words, found := strings.CutPrefix(lines.Text(), "  control at "); found {
			broker.ControlURL, _, _ = strings.Cut(words, " ")
		}
	}
	if broker.ControlURL == "" {
		t.Fatal("the broker did not start")
	}
	go io.Copy(io.Discard, output)
	return broker
}

// Advance advances the clock of the broker; all timers that are due have run when it returns.
func (b *Broker) Advance(duration time.Duration) {
	b.t.Helper()
	b.send(changeClock, "", nil, map[string]any{"advance_ms": duration.Milliseconds()}, nil)
}

// AddFault adds a fault for the requests from now on, and returns its id.
func (b *Broker) AddFault(fault AddFault) string {
	b.t.Helper()
	var added FaultState
	b.send(addFault, "", nil, fault, &added)
	return added.ID
}

// Fault returns the numbers of a fault.
func (b *Broker) Fault(id string) FaultState {
	b.t.Helper()
	var list struct {
		Faults []FaultState `json:"faults"`
	}
	b.send(listFaults, "", nil, nil, &list)
	for _, fault := range list.Faults {
		if fault.ID == id {
			return fault
		}
	}
	b.t.Fatalf("no fault %s", id)
	return FaultState{}
}

// RemoveFault removes a fault, and returns its final numbers.
func (b *Broker) RemoveFault(id string) FaultState {
	b.t.Helper()
	var removed FaultState
	b.send(removeFault, id, nil, nil, &removed)
	return removed
}

// Produce writes records without keys.
func (b *Broker) Produce(topic string, values ...string) {
	b.t.Helper()
	records := make([]map[string]string, 0, len(values))
	for _, value := range values {
		records = append(records, map[string]string{"value": value})
	}
	b.send(produceRecords, topic, nil, map[string]any{"records": records}, nil)
}

// Records waits up to 20 seconds until there are this many records, and returns the values of all.
func (b *Broker) Records(topic string, count int) []RecordAnswer {
	b.t.Helper()
	var list struct {
		Records []RecordAnswer `json:"records"`
	}
	query := url.Values{"count": {fmt.Sprint(count)}, "wait_ms": {"20000"}}
	b.send(readRecords, topic, query, nil, &list)
	if len(list.Records) < count {
		b.t.Fatalf("%d records in %s, not %d", len(list.Records), topic, count)
	}
	return list.Records
}

// Group returns a group.
func (b *Broker) Group(id string) GroupStatus {
	b.t.Helper()
	var group GroupStatus
	b.send(showGroup, id, nil, nil, &group)
	return group
}

// WaitForGroup waits up to 20 seconds until a group has this state and this many members.
func (b *Broker) WaitForGroup(id, state string, members int) {
	b.t.Helper()
	var group GroupStatus
	query := url.Values{"state": {state}, "members": {fmt.Sprint(members)}, "wait_ms": {"20000"}}
	b.send(showGroup, id, query, nil, &group)
	if group.State != state || len(group.Members) != members {
		b.t.Fatalf("group %s is %s with %d members", id, group.State, len(group.Members))
	}
}

// Transactions returns all transactional ids.
func (b *Broker) Transactions() []TransactionAnswer {
	b.t.Helper()
	var list struct {
		Transactions []TransactionAnswer `json:"transactions"`
	}
	b.send(listTransaction, "", nil, nil, &list)
	return list.Transactions
}

// StopNode stops a node as if its process was killed.
func (b *Broker) StopNode(id int) {
	b.t.Helper()
	b.send(changeNode, fmt.Sprint(id), nil, map[string]string{"state": "stopped"}, nil)
}

// StartNode starts a node again, with its data.
func (b *Broker) StartNode(id int) {
	b.t.Helper()
	b.send(changeNode, fmt.Sprint(id), nil, map[string]string{"state": "running"}, nil)
}

// SetQuota sets a quota of a client id, such as producer_byte_rate.
func (b *Broker) SetQuota(clientID, quota string, value float64) {
	b.t.Helper()
	quotas := map[string]float64{quota: value}
	b.send(setQuotas, "", nil, map[string]any{"client_id": clientID, "quotas": quotas}, nil)
}

// Explain returns the history of a group, transactional_id, topic or client.
func (b *Broker) Explain(kind, name string) []HistoryEntry {
	b.t.Helper()
	var explanation struct {
		Entries []HistoryEntry `json:"entries"`
	}
	b.send(explain, "", url.Values{kind: {name}}, nil, &explanation)
	return explanation.Entries
}

// LogRequests begins to log the requests of clients.
func (b *Broker) LogRequests() {
	b.t.Helper()
	b.send(listRequests, "", nil, nil, nil)
}

// Expect fails the test with the nearest requests, unless requests meet the expectation.
func (b *Broker) Expect(expected ExpectRequests) {
	b.t.Helper()
	var result struct {
		Met  bool   `json:"met"`
		Text string `json:"text"`
	}
	b.send(expectRequests, "", nil, expected, &result)
	if !result.Met {
		b.t.Error(result.Text)
	}
}

// send sends a request; the name takes the place of the variable of the path.
func (b *Broker) send(route Route, name string, query url.Values, body, answer any) {
	b.t.Helper()
	path, rest, _ := strings.Cut(route.Path, "{")
	if _, after, found := strings.Cut(rest, "}"); found {
		path += url.PathEscape(name) + after
	}
	content, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	if body == nil {
		content = nil
	}
	target := b.ControlURL + path + "?" + query.Encode()
	request, err := http.NewRequest(route.Method, target, bytes.NewReader(content))
	if err != nil {
		b.t.Fatal(err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if response.StatusCode >= 300 && response.StatusCode != http.StatusConflict {
		b.t.Fatalf("%s %s: %s", route.Method, path, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			b.t.Fatalf("%s %s: %v", route.Method, path, err)
		}
	}
}
