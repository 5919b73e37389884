#!/bin/sh
# Uses the control API of a broker from a shell. Start one first:
#   kafkalite serve --topic orders:3 --control
# KAFKALITE_CONTROL is the address of the control API, if it is not http://127.0.0.1:9097.
set -eu

kafkalite clock pause
kafkalite clock advance 7d
kafkalite clock resume

kafkalite fault add --api Produce --topic orders --error NOT_ENOUGH_REPLICAS --times 1
kafkalite fault list
kafkalite fault remove --all

kafkalite explain --group shop
