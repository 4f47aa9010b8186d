# cmake -D FROM=STEM -D TO=HEADER -P embed.cmake: writes STEM.html as an array to
# HEADER. STEM.css, STEM_history.js and STEM.js replace the lines @@name@@ in it.
# The array has numbers, because a string literal would need escapes and has a
# maximum length.
file(READ ${FROM}.html page HEX)
foreach(end .css _history.js .js)
  get_filename_component(name ${FROM}${end} NAME)
  string(HEX "@@${name}@@\n" place)
  string(FIND "${page}" ${place} at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${FROM}.html: no line @@${name}@@")
  endif()
  file(READ ${FROM}${end} text HEX)
  string(REPLACE ${place} "${text}" page "${page}")
endforeach()
string(REGEX REPLACE "(................................)" "\\1\n" page
  "${page}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," page "${page}")
file(WRITE ${TO} "// Made by embed.cmake.\n"
  "#pragma once\n"
  "inline constexpr char kStatusPageText[] = {\n${page}};\n")
