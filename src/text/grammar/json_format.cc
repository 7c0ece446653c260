#include "text/grammar/json_format.h"

namespace rose::grammar {

namespace {

#define DATE                                                                                  \
  "\\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)" \
  "|02-(?:0[1-9]|1\\d|2[0-8]))"
#define TIME \
  "(?:[01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(?:\\.\\d{1,6})?(?:Z|[+-](?:[01]\\d|2[0-3]):[0-5]\\d)"
#define COUNT "\\d{1,6}"
#define CLOCK "T(?:" COUNT "H(?:" COUNT "M(?:" COUNT "S)?)?|" COUNT "M(?:" COUNT "S)?|" COUNT "S)"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define HOST LABEL "(?:\\." LABEL "){0,5}"
#define OCTET "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define H "[0-9a-fA-F]{1,4}"
#define URL_CHAR "[A-Za-z0-9._~!$&'()*+,;=:@-]"

struct Format {
  const char* name;
  const char* pattern;
};

constexpr Format kFormats[] = {
    {"date", DATE},
    {"date-time", DATE "T" TIME},
    {"duration", "P(?:" COUNT "W|(?:" COUNT "Y(?:" COUNT "M(?:" COUNT "D)?)?|" COUNT "M(?:" COUNT
                 "D)?|" COUNT "D)(?:" CLOCK ")?|" CLOCK ")"},
    {"email",
     "[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,1}@(?:" LABEL "\\.){1,4}[A-Za-z]{2,24}"},
    {"hostname", HOST},
    {"ipv4", OCTET "(?:\\." OCTET "){3}"},
    {"ipv6", "(?:" H ":){7}" H "|(?:" H ":){1,7}:|(?:" H ":){1,6}:" H "|(?:" H ":){1,5}(?::" H
             "){1,2}|(?:" H ":){1,4}(?::" H "){1,3}|(?:" H ":){1,3}(?::" H "){1,4}|(?:" H
             ":){1,2}(?::" H "){1,5}|" H ":(?::" H "){1,6}|:(?::" H "){1,7}|::"},
    {"time", TIME},
    {"uri", "https?://" HOST "(?::[1-9]\\d{0,3})?(?:/" URL_CHAR "*)*(?:\\?(?:" URL_CHAR
            "|[/?])*)?(?:#(?:" URL_CHAR "|[/?])*)?"},
    {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
};

#undef DATE
#undef TIME
#undef COUNT
#undef CLOCK
#undef LABEL
#undef HOST
#undef OCTET
#undef H
#undef URL_CHAR

}  // namespace

const char* format_pattern(std::string_view format) {
  for (const Format& known : kFormats)
    if (known.name == format) return known.pattern;
  return nullptr;
}

std::string known_formats() {
  std::string names;
  for (const Format& known : kFormats)
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace rose::grammar
