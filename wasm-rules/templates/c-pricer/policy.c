// Prices GPUs at a discount on the list price.

#include <stdlib.h>
#include <string.h>

#include "pricer_policy.h"

typedef pricer_policy_string_t string;

static const char *SCHEMA =
    "{\"type\": \"object\", \"properties\": {\"discount\": {"
    "\"description\": \"Discount, as a share of the list price.\", "
    "\"type\": \"number\", \"default\": 0.1, \"minimum\": 0, \"maximum\": 1}}, "
    "\"additionalProperties\": false}";

// Discount, as a share of the list price.
static double discount = 0.1;

// Copies a string, because the bindings free what they return.
static string text(const char *from) {
  string copy;
  pricer_policy_string_dup(&copy, from);
  return copy;
}

void exports_phasemeter_policy_policy_describe(exports_phasemeter_policy_policy_manifest_t *manifest) {
  manifest->name = text("my-policy");
  manifest->version = text("0.1.0");
  manifest->summary = text("Prices GPUs at a discount on the list price.");
  manifest->settings_schema = text(SCHEMA);
}

// Called once in every fresh instance. The host has validated the settings against the schema.
bool exports_phasemeter_policy_policy_configure(
    exports_phasemeter_policy_policy_list_tuple2_string_value_t *settings,
    exports_phasemeter_policy_policy_list_setting_error_t *errors) {
  (void)errors;
  for (size_t i = 0; i < settings->len; i++) {
    string path = settings->ptr[i].f0;
    if (path.len == strlen("discount") && memcmp(path.ptr, "discount", path.len) == 0) {
      discount = settings->ptr[i].f1.val.number;
    }
  }
  exports_phasemeter_policy_policy_list_tuple2_string_value_free(settings);
  return true;
}

static bool is_hourly(bool is_known, phasemeter_policy_types_plan_t plan) {
  return !is_known || plan == PHASEMETER_POLICY_TYPES_PLAN_ON_DEMAND;
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

// Returns no quote for GPUs that the contract does not cover: the next pricer is queried, and at last the
// list price applies.
bool exports_phasemeter_policy_pricer_quote_price(
    exports_phasemeter_policy_pricer_quote_request_t *request,
    exports_phasemeter_policy_pricer_option_quote_t *result, string *error) {
  (void)error;
  const phasemeter_policy_types_price_t *listed = &request->listed.val;
  // The discount is on the hourly price. `request->attributes` are those of the run: a price may depend
  // on the team. With `request->is_offer` the GPUs are only compared with those in use.
  result->is_some = request->listed.is_some && is_hourly(request->plan.is_some, request->plan.val) &&
                    is_hourly(listed->plan.is_some, listed->plan.val);
  if (result->is_some) {
    exports_phasemeter_policy_pricer_quote_t *quote = &result->val;
    double price = (double)listed->nano_usd_per_gpu_hour * (1 - discount);
    quote->nano_usd_per_gpu_hour = (uint64_t)(price + 0.5);
    quote->plan = PHASEMETER_POLICY_TYPES_PLAN_ON_DEMAND;
    char source[60] = "my contract: ";
    append_integer(source, (unsigned)(discount * 100 + 0.5));
    quote->source = text(strcat(source, "% off list price"));
    if (listed->as_of.is_some) {
      string as_of = listed->as_of.val;
      pricer_policy_string_dup_n(&quote->as_of, (const char *)as_of.ptr, as_of.len);
    } else {
      quote->as_of = text("2026-01-01");
    }
    quote->valid_from.is_some = false;
    quote->valid_until.is_some = false;
    quote->gpus.is_some = false;
  }
  exports_phasemeter_policy_pricer_quote_request_free(request);
  return true;
}
