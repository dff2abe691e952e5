// Recommends sharing or switching off GPUs that are mostly idle.

#include <stdlib.h>
#include <string.h>

#include "recommender_policy.h"

typedef recommender_policy_string_t string;
typedef exports_phasemeter_policy_recommender_gpu_t gpu;
typedef exports_phasemeter_policy_recommender_accounts_t accounts;
typedef exports_phasemeter_policy_recommender_recommendation_t recommendation;

static const char *SCHEMA =
    "{\"type\": \"object\", \"properties\": {\"min_idle\": {"
    "\"description\": \"Minimum idle share of observed time.\", "
    "\"type\": \"number\", \"default\": 0.5, \"minimum\": 0, \"maximum\": 1}}, "
    "\"additionalProperties\": false}";

// Minimum idle share of observed time.
static double min_idle = 0.5;

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

static uint64_t bill(const accounts *of) {
  return of->idle_held.cost + of->idle_free.cost + of->idle_unknown.cost + of->underutilized.cost +
         of->productive.cost + of->compute_bound.cost + of->unobserved.cost;
}

// Returns whether there is a recommendation.
static bool recommend(const gpu *gpu, recommendation *result) {
  const accounts *of = &gpu->accounts;
  double idle = of->idle_held.seconds + of->idle_free.seconds + of->idle_unknown.seconds;
  double busy = of->underutilized.seconds + of->productive.seconds + of->compute_bound.seconds;
  double share = idle + busy > 0 ? idle / (idle + busy) : 0;
  // There is no idle waste if the GPU waits for input, or if its price is unknown.
  if (share < min_idle || gpu->waste.idle == 0) return false;
  double lost = (double)gpu->waste.idle / (double)bill(of);
  bool held = of->idle_held.seconds > of->idle_free.seconds;

  char rationale[200] = "The GPU was idle ";
  append_integer(rationale, (unsigned)(share * 100));
  strcat(rationale, held ? "% of the time, mostly held by a process."
                         : "% of the time, mostly free.");

  result->code = text(held ? "idle.bin_pack" : "idle.schedule");
  result->target = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_TARGET_IDLE;
  result->lever = text(held ? "bin_pack" : "schedule");
  result->title = text(held ? "Share this GPU" : "Switch this GPU off");
  result->action = text(held ? "Place a second job on it. The process that holds it is mostly idle."
                             : "Stop its node while nothing runs on it.");
  result->rationale = text(rationale);
  // Nothing is saved for certain: sharing needs another job, and switching off needs a schedule.
  result->saving.low = 0;
  result->saving.expected = lost * 0.5;
  result->saving.high = lost;
  result->confidence = 0.75;
  result->evidence.len = 2;
  result->evidence.ptr = malloc(2 * sizeof *result->evidence.ptr);
  result->evidence.ptr[0].name = text("idle.share");
  result->evidence.ptr[0].value = share;
  result->evidence.ptr[0].unit = text("1");
  result->evidence.ptr[1].name = text("lost.share");
  result->evidence.ptr[1].value = lost;
  result->evidence.ptr[1].unit = text("1");
  result->gpus.len = 1;
  result->gpus.ptr = malloc(sizeof *result->gpus.ptr);
  recommender_policy_string_dup_n(&result->gpus.ptr[0], (const char *)gpu->id.ptr, gpu->id.len);
  // Other jobs use the capacity; the bill stays the same.
  result->kind = held ? EXPORTS_PHASEMETER_POLICY_RECOMMENDER_RECOMMENDATION_KIND_CAPACITY
                      : EXPORTS_PHASEMETER_POLICY_RECOMMENDER_RECOMMENDATION_KIND_SAVING;
  result->effort = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_EFFORT_LOW;
  result->reversible = true;
  result->remediation.is_some = false;
  return true;
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
  for (size_t i = 0; i < window->gpus.len; i++) {
    if (recommend(&window->gpus.ptr[i], &results->ptr[results->len])) results->len++;
  }
  exports_phasemeter_policy_recommender_window_free(window);
  return true;
}
