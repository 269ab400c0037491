#pragma once

namespace tendril::rpc::detail {

// The parts of a MessagePage that are the same on every page.
extern const char* const kMessagePageStyle;   ///< CSS
extern const char* const kMessagePageBody;    ///< HTML: the controls and the elements that the script fills
extern const char* const kMessagePageScript;  ///< JavaScript, placed after `MessagePage::script`

}  // namespace tendril::rpc::detail
