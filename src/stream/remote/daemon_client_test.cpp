// How a reader starts a daemon.
#include "stream/remote/daemon_client.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "io/files/machine.h"
#include "io/ipc/socket.h"
#include "tests/support/status_asserts.h"
#include "tests/support/temp_directory.h"

namespace quire::stream::daemon_client_test {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kMinuteNs = 60 * kSecondNs;

// Variables that name files in the working directory, as a job script may set them.
class StartingDaemon : public testing::Test {
 protected:
  void SetUp() override {
    // Runs in place of the daemon: writes its arguments to a file, and fails.
    std::ofstream(root_ / "starter") << "#!/bin/sh\necho \"$@\" > \"$0.arguments\"\nexit 1\n";
    std::filesystem::permissions(root_ / "starter", std::filesystem::perms::owner_all);
    std::filesystem::create_directory(root_ / "place");
    std::filesystem::current_path(root_.path());
    ::setenv(kDaemonVariable, "./starter", 1);
    ::setenv(kTokenVariable, "secret", 1);
  }
  void TearDown() override {
    ::unsetenv(kDaemonVariable);
    ::unsetenv(kTokenVariable);
    std::filesystem::current_path(before_);
  }
  std::string Arguments() const {
    std::ifstream file(root_ / "starter.arguments");
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  }

  test::TempDirectory root_;

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
};

TEST_F(StartingDaemon, FindsTheFilesThatItsVariablesNamedWhenTheReaderWasOpened) {
  const std::string root = std::filesystem::current_path();
  DaemonClient client(root + "/place");
  std::filesystem::current_path("/");
  const auto answer = client.Call({}, io::RealClock().NowNs() + kMinuteNs);
  EXPECT_CODE(answer.status(), Code::kNotFound) << "it did not begin to listen";
  EXPECT_EQ(Arguments(),
            "--place " + root + "/place --detach --token " + root + "/secret\n");
}

// Connects to a daemon that is stopped.
TEST(DaemonClient, NoCallWaitsLongerForAnothersConnectionThanItMay) {
  const test::TempDirectory place;
  const auto listening = io::Socket::ListenLocal(place.path(), kDaemonSocket);
  ASSERT_OK(listening.status());
  DaemonClient client(place.path());
  const uint64_t start_ns = io::RealClock().NowNs();
  std::thread patient(
      [&] { EXPECT_CODE(client.Call({}, start_ns + 2 * kSecondNs).status(), Code::kTimedOut); });
  io::RealClock().SleepNs(kSecondNs / 5);
  const auto answer = client.Call({}, start_ns + kSecondNs / 2);
  EXPECT_LT(io::RealClock().NowNs() - start_ns, 3 * kSecondNs / 2);
  EXPECT_CODE(answer.status(), Code::kTimedOut);
  EXPECT_NE(answer.status().message().find("another thread"), std::string::npos);
  patient.join();
}

}  // namespace
}  // namespace quire::stream::daemon_client_test
