#!/usr/bin/env bash
# Starts and stops what `make up` runs, on the loopback address: a Collector, Prometheus and Jaeger with the files of
# otel-config, and a fleet that exports to them. Prints what to look at.
#
#   tests/stack/stack.sh up|down|kill [PROGRAM…]
#
# `kill` ends them at once, as a crash does. Every program ends by itself after STACK_MINUTES. JAEGER, OTELCOL and PROMETHEUS are those programs, STACK_BUILT the
# directory with phasemeter; the addresses below can be replaced by variables of the environment.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
export OTELCOL_GRPC=${OTELCOL_GRPC:-127.0.0.1:4317} OTELCOL_HTTP=${OTELCOL_HTTP:-127.0.0.1:4318}
export OTELCOL_PROMETHEUS=${OTELCOL_PROMETHEUS:-127.0.0.1:9464} OTELCOL_HEALTH=${OTELCOL_HEALTH:-127.0.0.1:13133}
export JAEGER_HTTP=${JAEGER_HTTP:-127.0.0.1:16686} JAEGER_GRPC=${JAEGER_GRPC:-127.0.0.1:16685}
export JAEGER_OTLP=${JAEGER_OTLP:-127.0.0.1:14317} OTELCOL_JAEGER=${JAEGER_OTLP:-127.0.0.1:14317}
prometheus=${STACK_PROMETHEUS:-127.0.0.1:9090} status=${STACK_STATUS:-127.0.0.1:8081}
export OTELCOL_PROMETHEUS_OTLP=http://$prometheus/api/v1/otlp/v1/metrics
# What the user's own GPUs, pod or backend have set is not of the fleet.
unset "${!OTEL_@}" "${!PHASEMETER_@}" "${!KUBERNETES_@}" NVIDIA_VISIBLE_DEVICES CUDA_VISIBLE_DEVICES TRACEPARENT
export OTEL_EXPORTER_OTLP_ENDPOINT=http://$OTELCOL_HTTP OTEL_METRIC_EXPORT_INTERVAL=${STACK_EXPORT_MILLISECONDS:-10000}
built=${STACK_BUILT:-$root/target/debug}
minutes=${STACK_MINUTES:-120}
# Length of an experiment in seconds. Its span reaches Jaeger when it ends.
length=${STACK_EXPERIMENT_SECONDS:-60}
dir=${STACK_DIR:-$root/target/stack}
servers=(prometheus jaeger collector)
fleet=(kubelet agent vision chat workstation)
action=${1:?up, down or kill}
shift
programs=("$@")
[ $# -gt 0 ] || programs=("${servers[@]}" "${fleet[@]}")
[ "$*" != fleet ] || programs=("${fleet[@]}")
mkdir -p "$dir/log" "$dir/pods"
# Sockets have short names there.
cd "$dir"
dir=$PWD

# The processes of a program, by a variable of their environment. The processes of others cannot be read.
processes() { grep -lszxF "STACK_PROGRAM=$dir/$1" /proc/[0-9]*/environ | cut -d / -f 3 || true; }

# Starts a command as a program.
start() {
    local program=$1
    shift
    # Alone, so that no signal of this terminal reaches it.
    STACK_PROGRAM=$dir/$program setsid timeout --foreground --kill-after=60 "${minutes}m" "$@" \
        > "log/$program" 2>&1 < /dev/null &
    started=$!
}

is_taken() { (: < "/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null; }

# Waits until the program that was started accepts connections at an address.
accepts() {
    until is_taken "$2"; do
        sleep 0.1
        kill -0 "$started" 2>/dev/null || { echo "$1 has ended:"; tail -n 5 "log/$1"; exit 1; } >&2
    done
}

# Meters experiments, one after another, beside the agent, in a pod of a namespace and team.
experiments() {
    local namespace=$1 pod=$2 team=$3
    shift 3
    # The variables of a pod. KUBERNETES_SERVICE_HOST only shows that it is one.
    export KUBERNETES_SERVICE_HOST=127.0.0.1 POD_NAMESPACE=$namespace POD_NAME=$pod
    export PHASEMETER_AGENT_SOCKET=agent.sock OTEL_SERVICE_NAME=$namespace
    export OTEL_RESOURCE_ATTRIBUTES=k8s.cluster.name=demo,k8s.namespace.name=$namespace,k8s.pod.name=$pod,team=$team
    again "$namespace" "$@"
}

# Runs `phasemeter run` around experiments, with these options and work in each second.
again() {
    local program=$1 unit=$2 count=$3
    shift 3
    start "$program" bash -c 'while "$@"; do :; done' "$program" "$built/phasemeter" run --data-dir "data/$program" "$@" \
        -- "$built/examples/node" work "$unit" "$count" "$length"
}

# The environment of a driver with a script.
driver() {
    mkdir -p "driver/$1"
    "$built/examples/node" driver "driver/$1" "$root/tests/stack/$1.toml"
    export LD_LIBRARY_PATH=$dir/driver/$1 FAKE_NVML_SCRIPT=$dir/driver/$1/script.toml RUNTIME_DIRECTORY=$dir/driver/$1
}

up() {
    local address=
    case $1 in
    prometheus) address=$prometheus ;;
    jaeger) address=$JAEGER_HTTP ;;
    collector) address=$OTELCOL_HTTP ;;
    agent) address=$status ;;
    esac
    if [ -n "$address" ] && is_taken "$address"; then
        echo "$1: another program listens at $address: stop it, or set another address (see $0)" >&2
        exit 1
    fi
    case $1 in
    prometheus)
        start "$1" "$PROMETHEUS" --config.file="$root/otel-config/prometheus/otlp.yaml" --web.enable-otlp-receiver \
            --enable-feature=created-timestamp-zero-ingestion,exemplar-storage --storage.tsdb.retention.time=31d \
            --storage.tsdb.path=prometheus --web.listen-address="$prometheus"
        accepts "$1" "$address" ;;
    jaeger)
        start "$1" "$JAEGER" --config "file:$root/otel-config/jaeger/jaeger.yaml"
        accepts "$1" "$address" ;;
    collector)
        local config=$root/otel-config/collector
        start "$1" "$OTELCOL" --config "$config/collector.yaml" --config "$config/prometheus.yaml" \
            --config "$config/jaeger.yaml" --config yaml:service::telemetry::metrics::level:\ none
        accepts "$1" "$address" ;;
    kubelet)
        rm -f kubelet.sock
        start "$1" "$built/examples/node" kubelet kubelet.sock "$root/tests/stack/pods.json" ;;
    agent)
        driver fleet
        export OTEL_RESOURCE_ATTRIBUTES=k8s.cluster.name=demo,k8s.node.name=node-1,team=platform
        # Experiments are those of the sidecars, and so are their spans.
        export OTEL_TRACES_EXPORTER=none OTEL_SERVICE_NAME=node
        start "$1" "$built/phasemeter" agent --kubelet-socket kubelet.sock --socket agent.sock --pod-logs pods \
            --provider aws --region us-east-1 --instance-type p5.48xlarge --window-interval 60 --metrics all \
            --health-listen "$status" --data-dir data/agent --report agent.json
        accepts "$1" "$address"
        # Sidecars export the time until the agent's accounts begin: at the whole second after its first readings.
        until "$built/phasemeter" status "$status" > /dev/null 2>&1; do sleep 0.2; done
        sleep 1 ;;
    vision) experiments vision train-0 perception samples 512 --workload training ;;
    chat) experiments chat chat-0 assistants tokens 850 --workload serving ;;
    workstation)
        driver workstation
        export OTEL_SERVICE_NAME=workstation PHASEMETER_AGENT_SOCKET=none
        export OTEL_RESOURCE_ATTRIBUTES=team=research
        again "$1" steps 4 --price 2 ;;
    *) echo "$0: no program $1" >&2; exit 2 ;;
    esac
}

if [ "$action" != up ]; then
    signal=TERM
    [ "$action" = down ] || signal=KILL
    # The fleet first: it delivers what it has.
    for ((last = ${#programs[@]} - 1; last >= 0; last--)); do
        signalled=' ' tries=0
        while running=$(processes "${programs[last]}") && [ -n "$running" ]; do
            # Each once, also those that were started meanwhile; and at last whatever they wait for.
            [ $((tries += 1)) -le 600 ] || signal=KILL signalled=' '
            for process in $running; do
                # `timeout` ends with what it runs.
                case $signalled in *" $process "*) continue ;; esac
                [ "$(cat "/proc/$process/comm" 2>/dev/null)" = timeout ] || kill -"$signal" "$process" 2>/dev/null || true
                signalled+="$process "
            done
            sleep 0.1
        done
    done
    exit
fi

for program in "${programs[@]}"; do
    [ -z "$(processes "$program")" ] || { echo "$program runs already: make down stops it" >&2; exit 1; }
done
# All or none.
trap '[ $? -eq 0 ] || "$root/tests/stack/stack.sh" down "${programs[@]}"' EXIT
for program in "${programs[@]}"; do (up "$program"); done
[ $# -eq 0 ] || exit 0
cat <<END
A Collector, Prometheus and Jaeger run, and a fleet of nine simulated GPUs exports to them:
a node with six pods, and a workstation. Data and logs are in $dir.
They end by themselves at $(date -d "+$minutes minutes" +%H:%M), after $minutes minutes, or by: make down

live in the terminal, and as a page for a browser:
  $built/phasemeter top $status
  $built/phasemeter status $status --format json > status.json
  $built/phasemeter page status.json --html page.html

Prometheus, after a minute: dollars so far, by namespace and by team; alerts
  curl -s http://$prometheus/api/v1/query --data-urlencode 'query=sum by (k8s_namespace_name) (phasemeter_gpu_cost_total)'
  curl -s http://$prometheus/api/v1/query --data-urlencode 'query=sum by (team) (increase(phasemeter_gpu_cost_total[1h]))'
  curl -s http://$prometheus/api/v1/alerts

Jaeger: an experiment with the phases of its GPUs, and their dollars
  curl -s 'http://$JAEGER_HTTP/api/traces?service=vision&limit=1'

your own run, here without a GPU, for two hours or until control-C:
  $built/phasemeter demo --otlp=http://$OTELCOL_HTTP --speed 1
END
