#include "api/fields.h"

#include "base/check.h"
#include "base/json.h"

namespace rose {

std::string kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::boolean: return value.get<bool>() ? "true" : "false";
    case Json::value_t::string: return "a string";
    case Json::value_t::array: return "an array";
    case Json::value_t::object: return "an object";
    default: return "the number " + dump_json(value);
  }
}

const Json* Fields::find(const char* name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::wrong(const std::string& name, const std::string& what, const std::string& code) {
  std::string param = path_ + name;
  std::string message = param + ": " + what;
  problem_.add({.message = std::move(message), .param = std::move(param), .code = code});
}

void Fields::read(const char* name, bool& into) {
  const Json* value = find(name);
  if (!value) return;
  if (!value->is_boolean()) return wrong(name, kind_of(*value) + ", wanted true or false");
  into = value->get<bool>();
}

void Fields::read(const char* name, std::string& into) {
  const Json* value = find(name);
  if (!value) return;
  if (!value->is_string()) return wrong(name, kind_of(*value) + ", wanted a string");
  into = value->get_ref<const std::string&>();
}

void Fields::read(const char* name, float& into, double low, double high) {
  const Json* value = find(name);
  if (!value) return;
  if (!value->is_number()) return wrong(name, kind_of(*value) + ", wanted a number");
  const double number = value->get<double>();
  if (!(number >= low && number <= high))
    return wrong(name, strf("%s is not in %g..%g", dump_json(*value).c_str(), low, high));
  into = float(number);
}

void Fields::read(const char* name, int& into, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (!value) return;
  // 5.0 is a whole number too: some clients write every number as a float.
  const double number = value->is_number() ? value->get<double>() : 0.5;
  if (number != double(int64_t(std::min(std::max(number, -1e15), 1e15))))
    return wrong(name, kind_of(*value) + ", wanted a whole number");
  if (number < double(low) || number > double(high))
    return wrong(name,
                 strf("%s is not in %ld..%ld", dump_json(*value).c_str(), long(low), long(high)));
  into = int(number);
}

void Fields::read(const char* name, std::optional<uint64_t>& into) {
  const Json* value = find(name);
  if (!value) return;
  if (value->is_number_unsigned())
    into = value->get<uint64_t>();
  else if (value->is_number_integer())
    into = uint64_t(value->get<int64_t>());
  else
    wrong(name, kind_of(*value) + ", wanted a whole number");
}

const Json* Fields::object(const char* name) {
  const Json* value = find(name);
  if (!value || value->is_object()) return value;
  wrong(name, kind_of(*value) + ", wanted an object");
  return nullptr;
}

const Json* Fields::array(const char* name) {
  const Json* value = find(name);
  if (!value || value->is_array()) return value;
  wrong(name, kind_of(*value) + ", wanted an array");
  return nullptr;
}

}  // namespace rose
