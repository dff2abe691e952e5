// Recommends sharing or switching off GPUs that are mostly idle.

#include <stdlib.h>
#include <string.h>

#include "recommender_policy.h"

typedef recommender_policy_string_t string;
typedef exports_phasemeter_policy_recommender_gpu_t gpu;
typedef exports_phasemeter_policy_recommender_list_gpu_t list_gpu;
typedef exports_phasemeter_policy_recommender_account_t account;
typedef exports_phasemeter_policy_recommender_recommendation_t recommendation;

static const char *SCHEMA =
    "{\"type\": \"object\", \"properties\": {\"min_idle\": {"
    "\"description\": \"Minimum idle share of observed time.\", "
    "\"type\": \"number\", \"default\": 0.5, \"minimum\": 0, \"maximum\": 1}}, "
    "\"additionalProperties\": false}";

// Minimum idle share of observed time.
static double min_idle = 0.5;

// Mean utilization of a step below which nothing ran.
static const double QUIET = 0.01;

// GPUs of one node, which are rented and given back together.
typedef struct {
  const gpu **ptr;
  size_t len;
} group;

// Copies a string, because the bindings free what they return.
static string text(const char *from) {
  string copy;
  recommender_policy_string_dup(&copy, from);
  return copy;
}

void exports_phasemeter_policy_policy_describe(exports_phasemeter_policy_policy_manifest_t *manifest) {
  manifest->name = text("my-policy");
  manifest->version = text("0.1.0");
  manifest->summary = text("Recommends sharing or switching off GPUs that are mostly idle.");
  manifest->settings_schema = text(SCHEMA);
}

// Called once in every fresh instance. The host has validated the settings against the schema.
bool exports_phasemeter_policy_policy_configure(
    exports_phasemeter_policy_policy_list_tuple2_string_value_t *settings,
    exports_phasemeter_policy_policy_list_setting_error_t *errors) {
  (void)errors;
  for (size_t i = 0; i < settings->len; i++) {
    string path = settings->ptr[i].f0;
    if (path.len == strlen("min_idle") && memcmp(path.ptr, "min_idle", path.len) == 0) {
      min_idle = settings->ptr[i].f1.val.number;
    }
  }
  exports_phasemeter_policy_policy_list_tuple2_string_value_free(settings);
  return true;
}

// Not printf: wasi-libc's printf imports WASI, which policies may not import.
static void append_integer(char *text, unsigned number) {
  char digits[12];
  char *first = digits + sizeof digits;
  *--first = '\0';
  do {
    *--first = (char)('0' + number % 10);
  } while (number /= 10);
  strcat(text, first);
}

static bool equal(string a, string b) { return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0; }

// An attribute of a GPU, or an empty string.
static string attribute(const gpu *gpu, const char *name) {
  string key = {(uint8_t *)name, strlen(name)};
  for (size_t i = 0; i < gpu->attributes.len; i++) {
    if (equal(gpu->attributes.ptr[i].f0, key)) return gpu->attributes.ptr[i].f1;
  }
  return (string){NULL, 0};
}

static string node_of(const gpu *gpu) {
  string host = attribute(gpu, "host.name");
  return host.len > 0 ? host : attribute(gpu, "log.file.name");
}

// The cost of all accounts, and the part of it that was used.
static account sum(group gpus) {
  account sum = {0};
  for (size_t i = 0; i < gpus.len; i++) {
    const account *each = &gpus.ptr[i]->accounts.idle_held;
    for (size_t of = 0; of < sizeof gpus.ptr[i]->accounts / sizeof *each; of++) {
      sum.cost += each[of].cost;
      sum.utilized_cost += each[of].utilized_cost;
    }
  }
  return sum;
}

static bool is_idle(const gpu *gpu) {
  double idle = gpu->accounts.idle_held.seconds + gpu->accounts.idle_free.seconds +
                gpu->accounts.idle_unknown.seconds;
  double busy = gpu->accounts.underutilized.seconds + gpu->accounts.productive.seconds +
                gpu->accounts.compute_bound.seconds;
  // There is no idle waste if the GPU waits for input, or if its price is unknown.
  return gpu->waste.idle > 0 && idle / (idle + busy) >= min_idle;
}

// The share of the time in which no GPU of a node works. Unobserved steps are NaN, and count as work.
static double free_share(group node) {
  size_t steps = node.ptr[0]->utilization.len, without_work = 0;
  for (size_t step = 0; step < steps; step++) {
    size_t quiet = 0;
    for (size_t i = 0; i < node.len; i++) {
      const recommender_policy_list_f64_t *column = &node.ptr[i]->utilization;
      quiet += step < column->len && column->ptr[step] < QUIET;
    }
    without_work += quiet == node.len;
  }
  return steps > 0 ? (double)without_work / (double)steps : 0;
}

static exports_phasemeter_policy_recommender_evidence_t share(const char *name, double value) {
  return (exports_phasemeter_policy_recommender_evidence_t){text(name), value, text("1")};
}

// Returns whether there is a recommendation. `idle` has space for all GPUs of the node.
static bool recommend(group node, group idle, recommendation *result) {
  double lost = 0;
  for (size_t i = 0; i < node.len; i++) {
    if (!is_idle(node.ptr[i])) continue;
    idle.ptr[idle.len++] = node.ptr[i];
    lost += (double)node.ptr[i]->waste.idle;
  }
  if (idle.len == 0) return false;
  lost /= (double)sum(idle).cost;
  double quiet = free_share(node);
  bool is_free = quiet >= min_idle;

  char title[80] = "";
  append_integer(title, (unsigned)idle.len);
  strcat(title, " of ");
  append_integer(title, (unsigned)node.len);
  strcat(title, is_free ? " GPUs free " : " GPUs mostly idle");
  char rationale[120] = "";
  char *percent = is_free ? title : strcat(rationale, "Their node was free ");
  append_integer(percent, (unsigned)(quiet * 100));
  strcat(percent, is_free ? "% of the time" : "% of the time, which is too little to stop it.");

  result->title = text(title);
  if (is_free) {
    result->code = text("idle.schedule");
    result->lever = text("schedule");
    result->kind = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_RECOMMENDATION_KIND_SAVING;
    result->action = text("Stop their node while nothing runs on it, if it has no other GPUs.");
    result->rationale =
        text("No GPU of the node worked then. How much of it a schedule finds is not known.");
    // Nothing is saved for certain: switching off needs a schedule.
    result->saving.high = lost < quiet ? lost : quiet;
    result->saving.expected = result->saving.high * 0.5;
  } else {
    // Other jobs use the capacity; the bill stays the same.
    result->code = text("idle.bin_pack");
    result->lever = text("bin_pack");
    result->kind = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_RECOMMENDATION_KIND_CAPACITY;
    result->action = text("Place other jobs on them.");
    result->rationale = text(rationale);
    // Sharing needs other jobs: expect at most as much work again as the node does now.
    account all = sum(node);
    double utilized = (double)all.utilized_cost / (double)all.cost;
    result->saving.high = lost;
    result->saving.expected = utilized < lost * 0.5 ? utilized : lost * 0.5;
  }
  result->saving.low = 0;
  result->target = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_TARGET_IDLE;
  result->confidence = 0.5;
  result->evidence.len = 2;
  result->evidence.ptr = malloc(2 * sizeof *result->evidence.ptr);
  result->evidence.ptr[0] = share("free.share", quiet);
  result->evidence.ptr[1] = share("lost.share", lost);
  result->gpus.len = idle.len;
  result->gpus.ptr = malloc(idle.len * sizeof *result->gpus.ptr);
  for (size_t i = 0; i < idle.len; i++) {
    string id = idle.ptr[i]->id;
    recommender_policy_string_dup_n(&result->gpus.ptr[i], (const char *)id.ptr, id.len);
  }
  result->effort = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_EFFORT_LOW;
  result->reversible = true;
  result->remediation.is_some = false;
  return true;
}

// The GPUs of a node of which `first` is the first in the window; none if another is.
static group node_from(list_gpu gpus, size_t first, const gpu **space) {
  group node = {space, 0};
  string name = node_of(&gpus.ptr[first]);
  for (size_t i = 0; i < gpus.len; i++) {
    if (!equal(node_of(&gpus.ptr[i]), name)) continue;
    if (i < first) break;
    node.ptr[node.len++] = &gpus.ptr[i];
  }
  return node;
}

bool exports_phasemeter_policy_recommender_recommend(
    exports_phasemeter_policy_recommender_window_t *window,
    exports_phasemeter_policy_recommender_response_t *response, string *error) {
  (void)error;
  response->needs.len = 0;
  response->needs.ptr = NULL;
  exports_phasemeter_policy_recommender_list_recommendation_t *results = &response->recommendations;
  results->len = 0;
  results->ptr = malloc((window->gpus.len + 1) * sizeof *results->ptr);
  const gpu **space = malloc((2 * window->gpus.len + 1) * sizeof *space);
  for (size_t i = 0; i < window->gpus.len; i++) {
    group node = node_from(window->gpus, i, space), idle = {space + node.len, 0};
    if (node.len > 0 && recommend(node, idle, &results->ptr[results->len])) results->len++;
  }
  free(space);
  exports_phasemeter_policy_recommender_window_free(window);
  return true;
}
