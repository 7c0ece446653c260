# cmake -DSOURCE=src/web -DOUTPUT=web_files.cc -P tools/embed_web.cmake
# The files of the web pages as C++ string literals, so that the program needs nothing beside it.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

file(GLOB files ${SOURCE}/*)
set(text "// Made by tools/embed_web.cmake.\n#include \"api/web.h\"\n\nnamespace rose {\n\n")
string(APPEND text "std::span<const WebFile> web_files() {\n  static constexpr WebFile kFiles[] = {\n")
foreach(file ${files})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE ".*\\." "" ending ${name})
  file(READ ${file} body)
  string(APPEND text "      {\"${name}\", \"${type_${ending}}\", R\"~web~(${body})~web~\"},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n\n}  // namespace rose\n")
file(WRITE ${OUTPUT} "${text}")
