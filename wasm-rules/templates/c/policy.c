// Advises what to do with GPUs that are idle most of the time.

#include <stdlib.h>
#include <string.h>

#include "recommender_policy.h"

typedef recommender_policy_string_t string;
typedef exports_phasemeter_policy_recommender_gpu_t gpu;
typedef exports_phasemeter_policy_recommender_accounts_t accounts;
typedef exports_phasemeter_policy_recommender_recommendation_t recommendation;

static const char *SCHEMA =
    "{\"type\": \"object\", \"properties\": {\"least_idle\": {"
    "\"description\": \"GPUs that are idle for less of their observed time than this are left alone.\", "
    "\"type\": \"number\", \"default\": 0.5, \"minimum\": 0, \"maximum\": 1}}, "
    "\"additionalProperties\": false}";

// GPUs that are idle for less of their observed time than this are left alone.
static double least_idle = 0.5;

// What is handed over is freed by the bindings, so it must be a copy.
static string text(const char *from) {
  string copy;
  recommender_policy_string_dup(&copy, from);
  return copy;
}

void exports_phasemeter_policy_policy_describe(exports_phasemeter_policy_policy_manifest_t *manifest) {
  manifest->name = text("my-policy");
  manifest->version = text("0.1.0");
  manifest->summary = text("Advises what to do with GPUs that are idle most of the time.");
  manifest->settings_schema = text(SCHEMA);
}

// Called once in every fresh instance. The host has checked the settings by the schema.
bool exports_phasemeter_policy_policy_configure(
    exports_phasemeter_policy_policy_list_tuple2_string_value_t *settings,
    exports_phasemeter_policy_policy_list_setting_error_t *errors) {
  (void)errors;
  for (size_t i = 0; i < settings->len; i++) {
    string path = settings->ptr[i].f0;
    if (path.len == strlen("least_idle") && memcmp(path.ptr, "least_idle", path.len) == 0) {
      least_idle = settings->ptr[i].f1.val.number;
    }
  }
  exports_phasemeter_policy_policy_list_tuple2_string_value_free(settings);
  return true;
}

// printf would do, but with it wasi-libc imports WASI, which no policy gets.
static void append_whole(char *text, unsigned number) {
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

// Whether there is anything to advise.
static bool advise(const gpu *gpu, recommendation *advice) {
  const accounts *of = &gpu->accounts;
  double idle = of->idle_held.seconds + of->idle_free.seconds + of->idle_unknown.seconds;
  double busy = of->underutilized.seconds + of->productive.seconds + of->compute_bound.seconds;
  double share = idle + busy > 0 ? idle / (idle + busy) : 0;
  // Nothing is lost where it waits for its input, nor known where nobody knows its price.
  if (share < least_idle || gpu->waste.idle == 0) return false;
  double lost = (double)gpu->waste.idle / (double)bill(of);
  bool held = of->idle_held.seconds > of->idle_free.seconds;

  char rationale[200] = "It was idle for ";
  append_whole(rationale, (unsigned)(share * 100));
  strcat(rationale, held ? " % of its time, and held by a process for most of that."
                         : " % of its time, and free for most of that.");

  advice->code = text(held ? "idle.bin_pack" : "idle.schedule");
  advice->target = EXPORTS_PHASEMETER_POLICY_RECOMMENDER_TARGET_IDLE;
  advice->lever = text(held ? "bin_pack" : "schedule");
  advice->title = text(held ? "Share this GPU" : "Switch this GPU off");
  advice->action = text(held ? "Place a second job on it: what holds it hardly computes."
                             : "Stop its node while nothing runs on it.");
  advice->rationale = text(rationale);
  advice->saving.low = lost * 0.5;
  advice->saving.expected = lost * 0.75;
  advice->saving.high = lost;
  advice->confidence = 0.75;
  advice->evidence.len = 2;
  advice->evidence.ptr = malloc(2 * sizeof *advice->evidence.ptr);
  advice->evidence.ptr[0].f0 = text("idle.share");
  advice->evidence.ptr[0].f1 = share;
  advice->evidence.ptr[1].f0 = text("lost.share");
  advice->evidence.ptr[1].f1 = lost;
  advice->gpus.len = 1;
  advice->gpus.ptr = malloc(sizeof *advice->gpus.ptr);
  recommender_policy_string_dup_n(&advice->gpus.ptr[0], (const char *)gpu->id.ptr, gpu->id.len);
  return true;
}

bool exports_phasemeter_policy_recommender_recommend(
    exports_phasemeter_policy_recommender_window_t *window,
    exports_phasemeter_policy_recommender_list_recommendation_t *advice, string *error) {
  (void)error;
  advice->len = 0;
  advice->ptr = malloc((window->gpus.len + 1) * sizeof *advice->ptr);
  for (size_t i = 0; i < window->gpus.len; i++) {
    if (advise(&window->gpus.ptr[i], &advice->ptr[advice->len])) advice->len++;
  }
  exports_phasemeter_policy_recommender_window_free(window);
  return true;
}
