#!/bin/sh
# A day of Hearth in a network of its own, which has one way out: to nowhere, and counted. Runs as
# root in new network and mount namespaces; tests/it/outgoing.rs says what it must print.
#
#   outgoing.sh HEARTH FOLDER
set -eu
hearth=$1 folder=$2
cd "$folder"
mkdir home tmp work

echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
ip link set lo up
ip link add out type veth peer name nowhere
ip address add 192.0.2.2/24 dev out
ip link set out up
ip link set nowhere up
# Without it, the kernel would ask for this address, and drop what it cannot deliver.
ip neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev out
ip route add default via 192.0.2.1
echo 'nameserver 192.0.2.1' > resolv.conf
mount --bind resolv.conf /etc/resolv.conf

packets() { ip -json -stats link show out | sed 's/.*"tx":{"bytes":[0-9]*,"packets":\([0-9]*\).*/\1/'; }
# Of the environment only what the cluster needs: no variable forbids it anything.
set -- env -i PATH="$PATH" HOME="$folder/home" TMPDIR="$folder/tmp" HEARTH_CACHE="$HEARTH_CACHE" "$hearth"

cd work
before=$(packets)
"$@" demo > "$folder"/demo.log 2>&1 &
until grep -q 'Hearth is ready' "$folder"/demo.log; do
    kill -0 $! || { cat "$folder"/demo.log; exit 1; }
    sleep 0.1
done
config=$(sed -n 's/.*--config \(.*\) status$/\1/p' "$folder"/demo.log)
"$@" add 'The lighthouse keeper likes green tea.' > "$folder"/client.log
"$@" search 'what does the keeper drink?' | grep -q 'green tea'
"$@" context 'tea' | grep -q 'green tea'
"$@" export "$folder"/export.jsonl >> "$folder"/client.log
"$@" doctor --config "$config" >> "$folder"/client.log
"$@" cluster --config "$config" verify >> "$folder"/client.log
"$@" backup create "$folder/backup" --config "$config" >> "$folder"/client.log
# `hearth demo` passes the request to stop on to its nodes, and waits for them.
kill -TERM $!
wait $! || { cat "$folder"/demo.log; exit 1; }
echo "packets: $(($(packets) - before))"
# Were a packet sent, it would be counted.
timeout 1 getent hosts elsewhere.example || true
echo "counted: $(($(packets) - before))"
cd ..
echo "files: $(find home tmp work -type f | sort | tr '\n' ' ')"
