# The files that pages name, in the directory of a page.
logs_of=$REPOSITORY/tests/fixtures
cp "$logs_of"/exercises/*.csv .
cp training.csv node1.csv
gzip -c serving.csv > node2.csv.gz
cp training.csv train.csv
# Of the columns that a page records.
cut -d, -f1-7,9-10 training.csv > recorded.csv
export LOG="$PWD/recorded.csv"
# Eight GPUs without IDs.
awk 'BEGIN {
    print "timestamp, utilization.gpu [%]"
    for (second = 0; second < 60; second++) for (gpu = 0; gpu < 8; gpu++)
        printf "2026/07/27 00:00:%02d.%03d, %d %%\n", second, gpu, 10 * gpu
}' > old.csv
printf '%s\n' time,unit,count 2026-07-27T00:00:00Z,samples,0 2026-07-27T00:10:00Z,samples,6000 > work.csv

# Recorded metrics.
cp "$logs_of/pages/exclusive.prom" scrapes.prom
awk 'BEGIN {
    print "2026-07-27T00:00:00.0Z #Entity   POWER   FBTTL   FBUSD   GPUTL"
    for (second = 0; second < 60; second++)
        printf "2026-07-27T00:00:%02d.0Z GPU 0     70.000   23034   4096   %d\n", second, 80
}' > dmon.txt
phasemeter audit training.csv --otlp-file train.jsonl > audit.txt
awk 'BEGIN {
    uuid = "GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d60"
    printf "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":{\"__name__\":\"DCGM_FI_DEV_GPU_UTIL\","
    printf "\"UUID\":\"%s\",\"gpu\":\"0\",\"modelName\":\"NVIDIA L4\",\"Hostname\":\"node-1\"},\"values\":[", uuid
    for (tick = 0; tick < 40; tick++) printf "%s[%d,\"80\"]", tick ? "," : "", 1785110400 + 15 * tick
    print "]}]}}"
}' > util.json
cat > metrics.jsonl <<END
{"resourceMetrics":[{"resource":{},"scopeMetrics":[{"metrics":[{"name":"DCGM_FI_DEV_GPU_UTIL","gauge":{"dataPoints":[
$(awk 'BEGIN { for (tick = 0; tick < 40; tick++) printf "%s{\"timeUnixNano\":\"%d000000000\",\"asDouble\":80,\"attributes\":[{\"key\":\"UUID\",\"value\":{\"stringValue\":\"GPU-5a9a3bc4\"}},{\"key\":\"modelName\",\"value\":{\"stringValue\":\"NVIDIA L4\"}},{\"key\":\"Hostname\",\"value\":{\"stringValue\":\"node-1\"}}]}\n", tick ? "," : "", 1785110400 + 15 * tick }')
]}}]}]}]}
END

# Reports, and what is beside them.
phasemeter audit "$logs_of/pages/pod-labels.prom" --price 3 --format json > node-1.json
printf '%s\n' team,billed_usd vision,210.00 speech,198.50 > invoice.csv
cp "$logs_of/plans/aws-ec2.csv" ec2-us-east-1.csv
cp "$REPOSITORY/wasm-rules/dist/sizing.wasm" team.wasm
cp "$REPOSITORY/wasm-rules/policies/negotiated/tests/commitment-announced.settings.json" prices.json

# The configuration that its page has.
sed -n '/^```yaml$/,/^```$/{/^```/d;p;}' "$REPOSITORY/docs/configuration.md" > phasemeter.yaml

# Directories of the machine.
mkdir -p root/bills root/var/lib/phasemeter/reports root/etc/phasemeter/policies root/etc/grafana/provisioning/dashboards \
    root/usr/share/bash-completion/completions
cp node-1.json root/var/lib/phasemeter/reports
