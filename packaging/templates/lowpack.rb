class Lowpack < Formula
  desc "Pack ultra-low-bit language models for CPUs, prove the bytes, run them"
  homepage "{{.Home}}"
  version "{{.Version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "{{.Archive.darwin_arm64.URL}}"
      sha256 "{{.Archive.darwin_arm64.SHA256}}"
    end
    on_intel do
      url "{{.Archive.darwin_amd64.URL}}"
      sha256 "{{.Archive.darwin_amd64.SHA256}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.Archive.linux_arm64.URL}}"
      sha256 "{{.Archive.linux_arm64.SHA256}}"
    end
    on_intel do
      url "{{.Archive.linux_amd64.URL}}"
      sha256 "{{.Archive.linux_amd64.SHA256}}"
    end
  end

  def install
    bin.install "bin/lowpack"
    share.install Dir["share/*"]
  end

  test do
    assert_match "lowpack #{version}", shell_output("#{bin}/lowpack version")
  end
end
