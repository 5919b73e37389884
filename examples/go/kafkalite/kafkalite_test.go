package kafkalite

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// The broker serves a description of its control API. Every route and field of this client is in it.
func TestClientAgreesWithTheDescriptionOfTheControlAPI(t *testing.T) {
	response, err := http.Get(Start(t).ControlURL + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	type schema struct{ Properties map[string]any }
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Schema schema }
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		t.Fatal(err)
	}
	for _, route := range Routes {
		if _, found := document.Paths[route.Path][strings.ToLower(route.Method)]; !found {
			t.Error("no route", route)
		}
	}
	body := func(route Route) schema {
		operation := document.Paths[route.Path][strings.ToLower(route.Method)]
		return operation.RequestBody.Content["application/json"].Schema
	}
	schemas := document.Components.Schemas
	for _, each := range []struct {
		value  any
		schema schema
	}{
		{AddFault{}, body(addFault)},
		{ExpectRequests{}, body(expectRequests)},
		{Match{}, schemas["Match"]},
		{Trigger{}, schemas["Trigger"]},
		{Action{}, schemas["Action"]},
		{FaultState{}, schemas["FaultState"]},
		{RecordAnswer{}, schemas["RecordAnswer"]},
		{GroupStatus{}, schemas["GroupStatus"]},
		{GroupMember{}, schemas["GroupMember"]},
		{GroupOffset{}, schemas["GroupOffset"]},
		{TransactionAnswer{}, schemas["TransactionAnswer"]},
		{HistoryEntry{}, schemas["HistoryEntry"]},
	} {
		for _, field := range reflect.VisibleFields(reflect.TypeOf(each.value)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if _, found := each.schema.Properties[name]; !found {
				t.Errorf("%T has no field %s in the description", each.value, name)
			}
		}
	}
}
